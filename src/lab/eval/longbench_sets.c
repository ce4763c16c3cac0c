/* longbench_sets.c - the published prompts (config/dataset2prompt.json), lengths of answers (dataset2maxlen.json) and
 * metrics (eval.py) of all data sets. */
#include "lab/eval/longbench_data.h"

const lh_longbench_set lh_longbench_sets[] = {
    {.name = "narrativeqa",
     .head =
         "You are given a story, which can be either a novel or a movie script, and a question. Answer the question "
         "asconcisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nStory: ",
     .question = "\n\nNow, answer the question based on the story asconcisely as you can, using a single phrase if "
                 "possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
     .max_new = 128,
     .score = lh_longbench_qa_f1},
    {.name = "qasper",
     .head = "You are given a scientific article and a question. Answer the question as concisely as you can, using a "
             "single phrase or sentence if possible. If the question cannot be answered based on the information in "
             "the article, write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or "
             "\"unanswerable\". Do not provide any explanation.\n\nArticle: ",
     .question = "\n\n Answer the question based on the above article as concisely as you can, using a single phrase "
                 "or sentence if possible. If the question cannot be answered based on the information in the article, "
                 "write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or "
                 "\"unanswerable\". Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
     .max_new = 128,
     .score = lh_longbench_qa_f1},
    {.name = "multifieldqa_en",
     .head = "Read the following text and answer briefly.\n\n",
     .question = "\n\nNow, answer the following question based on the above text, only give me the answer and do not "
                 "output any other words.\n\nQuestion: {input}\nAnswer:",
     .max_new = 64,
     .score = lh_longbench_qa_f1},
    {.name = "hotpotqa",
     .head = "Answer the question based on the given passages. Only give me the answer and do not output any other "
             "words.\n\nThe following are given passages.\n",
     .question = "\n\nAnswer the question based on the given passages. Only give me the answer and do not output any "
                 "other words.\n\nQuestion: {input}\nAnswer:",
     .max_new = 32,
     .score = lh_longbench_qa_f1},
    {.name = "2wikimqa",
     .head = "Answer the question based on the given passages. Only give me the answer and do not output any other "
             "words.\n\nThe following are given passages.\n",
     .question = "\n\nAnswer the question based on the given passages. Only give me the answer and do not output any "
                 "other words.\n\nQuestion: {input}\nAnswer:",
     .max_new = 32,
     .score = lh_longbench_qa_f1},
    {.name = "musique",
     .head = "Answer the question based on the given passages. Only give me the answer and do not output any other "
             "words.\n\nThe following are given passages.\n",
     .question = "\n\nAnswer the question based on the given passages. Only give me the answer and do not output any "
                 "other words.\n\nQuestion: {input}\nAnswer:",
     .max_new = 32,
     .score = lh_longbench_qa_f1},
    {.name = "gov_report",
     .head = "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n",
     .question = "\n\nNow, write a one-page summary of the report.\n\nSummary:",
     .max_new = 512,
     .score = lh_longbench_rouge},
    {.name = "qmsum",
     .head = "You are given a meeting transcript and a query containing a question or instruction. Answer the query in "
             "one or more sentences.\n\nTranscript:\n",
     .question = "\n\nNow, answer the query based on the above meeting transcript in one or more sentences.\n\nQuery: "
                 "{input}\nAnswer:",
     .max_new = 512,
     .score = lh_longbench_rouge},
    {.name = "multi_news",
     .head = "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n",
     .question = "\n\nNow, write a one-page summary of all the news.\n\nSummary:",
     .max_new = 512,
     .score = lh_longbench_rouge},
    {.name = "trec",
     .head = "Please determine the type of the question below. Here are some examples of questions.\n\n",
     .question = "\n{input}",
     .max_new = 64,
     .plain = 1,
     .first_line = 1,
     .score = lh_longbench_classification},
    {.name = "triviaqa",
     .head = "Answer the question based on the given passage. Only give me the answer and do not output any other "
             "words. The following are some examples.\n\n",
     .question = "\n\n{input}",
     .max_new = 32,
     .plain = 1,
     .first_line = 1,
     .score = lh_longbench_qa_f1},
    {.name = "samsum",
     .head = "Summarize the dialogue into a few short sentences. The following are some examples.\n\n",
     .question = "\n\n{input}",
     .max_new = 128,
     .plain = 1,
     .first_line = 1,
     .score = lh_longbench_rouge},
    {.name = "lsht",
     .head = "请判断给定新闻的类别，下面是一些例子。\n\n",
     .question = "\n{input}",
     .max_new = 64,
     .plain = 1,
     .first_line = 1,
     .score = lh_longbench_classification},
    {.name = "passage_count",
     .head = "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully "
             "read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In "
             "other words, how many non-repeating paragraphs are there in total?\n\n",
     .question = "\n\nPlease enter the final count of unique paragraphs after removing duplicates. The output format "
                 "should only contain the number, such as 1, 2, 3, and so on.\n\nThe final answer is: ",
     .max_new = 32,
     .score = lh_longbench_count},
    {.name = "passage_retrieval_en",
     .head = "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the "
             "abstract is from.\n\n",
     .question =
         "\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that the abstract "
         "is from. The answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\nThe answer is: ",
     .max_new = 32,
     .score = lh_longbench_retrieval},
    {.name = "passage_retrieval_zh",
     .head = "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n",
     .question = "\n\n下面是一个摘要\n\n{input}"
                 "\n\n请输入摘要所属段落的编号。答案格式必须是\"段落1\"，\"段落2\"等格式\n\n答案是：",
     .max_new = 32,
     .score = lh_longbench_retrieval_zh},
    {.name = "lcc",
     .head = "Please complete the code given below. \n",
     .question = "Next line of code:\n",
     .max_new = 64,
     .plain = 1,
     .score = lh_longbench_code_sim},
    {.name = "repobench-p",
     .head = "Please complete the code given below. \n",
     .question = "{input}Next line of code:\n",
     .max_new = 64,
     .plain = 1,
     .score = lh_longbench_code_sim},
    {.name = "multifieldqa_zh"},
    {.name = "dureader"},
    {.name = "vcsum"},
    {0}};
_Static_assert(sizeof lh_longbench_sets / sizeof *lh_longbench_sets == LH_LONGBENCH_SETS + 1, "number of sets");
