/* task_formats.c - the benchmarks that `eval tasks` reads from their published files: member names of records, prompts,
 * lengths of answers and metrics. */
#include "lab/eval/task_files.h"

/* This program's own members, which contain the columns of kvpress' tables and the members of SQuAD's questions. */
#define OWN                                                                                                  \
    .context = "context", .question = "question|input", .answers = "answers|answer",                         \
    .choices = "choices|all_classes|options", .prefix = "answer_prefix", .task = "task", .metric = "metric", \
    .max_new = "max_new_tokens", .length = "nominal_length"

const lh_task_format lh_task_formats[] = {
    {.signs = {"question", "answer_prefix"}, OWN},
    /* MiniLongBench: finished prompts */
    {.signs = {"origin_prompt", "gold"},
     .prompt = "origin_prompt",
     .answers = "gold",
     .choices = "all_classes",
     .needs_row = 1},
    /* RULER (NVIDIA/RULER, scripts/data): finished prompts */
    {.signs = {"input", "outputs"}, .prompt = "input", .answers = "outputs", .prefix = "answer_prefix", .needs_row = 1},
    /* LongBench v2 (THUDM/LongBench) */
    {.signs = {"choice_A", "choice_D"},
     .context = "context",
     .answers = "answer",
     .fixed_task = "longbench-v2",
     .has_template = 1,
     .needs_row = 1},
    /* InfiniteBench (OpenBMB/InfiniteBench) */
    {.signs = {"input", "options"},
     .context = "context|content",
     .answers = "answer",
     .choices = "options",
     .has_template = 1,
     .needs_row = 1},
    /* LongBench (THUDM/LongBench, LongBench/) */
    {.signs = {"dataset", "input"},
     .context = "context",
     .answers = "answers",
     .choices = "all_classes",
     .task = "dataset",
     .has_template = 1,
     .needs_row = 1},
    {OWN},
};

#define PASSAGES                                                                                                      \
    "Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\n" \
    "The following are given passages.\n"
#define ABOUT_PASSAGES                                                                                                \
    "\n\nAnswer the question based on the given passages. Only give me the answer and do not output any other words." \
    "\n\nQuestion: {input}\nAnswer:"
#define OPTIONS "\nA. {A}\nB. {B}\nC. {C}\nD. {D}\n\n"

const lh_task_row lh_task_rows[] = {
    /* RULER (scripts/data/synthetic/constants.py), and the two basic tasks of its second version */
    {.name = "niah",
     .metric = "string-match-all",
     .max_new = 128,
     .question_begins = {"What are all the special magic", "What is the special magic"},
     .prefix_begins = " The special magic"},
    {.name = "vt",
     .metric = "string-match-all",
     .max_new = 30,
     .question_begins = {"Question: Find all variables that are assigned the value"},
     .prefix_begins = " Answer:"},
    {.name = "cwe",
     .metric = "string-match-all",
     .max_new = 120,
     .question_begins = {"Question: What are the 10 most common words in the above list?"},
     .prefix_begins = " Answer:"},
    {.name = "fwe",
     .metric = "string-match-all",
     .max_new = 50,
     .question_begins = {"Question: Do not provide any explanation."},
     .prefix_begins = " Answer:"},
    {.name = "qa",
     .metric = "string-match-part",
     .max_new = 32,
     .question_begins = {"Answer the question based on the given documents."},
     .prefix_begins = " Answer:"},
    {.name = "mk_niah", .metric = "string-match-all", .max_new = 128, .question_begins = {"What is the special magic"}},
    {.name = "mv_niah",
     .metric = "string-match-all",
     .max_new = 128,
     .question_begins = {"What are all the special magic"}},

    /* LongBench (Bai et al., arXiv 2308.14508; THUDM/LongBench 2e00731, LongBench/config and eval.py) */
    {.name = "narrativeqa",
     .head =
         "You are given a story, which can be either a novel or a movie script, and a question. Answer the question "
         "asconcisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nStory: ",
     .tail = "\n\nNow, answer the question based on the story asconcisely as you can, using a single phrase if "
             "possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
     .question_begins = {"\n\nNow, answer the question based on the story"},
     .max_new = 128,
     .metric = "f1"},
    {.name = "qasper",
     .head = "You are given a scientific article and a question. Answer the question as concisely as you can, using a "
             "single phrase or sentence if possible. If the question cannot be answered based on the information in "
             "the article, write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or "
             "\"unanswerable\". Do not provide any explanation.\n\nArticle: ",
     .tail = "\n\n Answer the question based on the above article as concisely as you can, using a single phrase "
             "or sentence if possible. If the question cannot be answered based on the information in the article, "
             "write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or "
             "\"unanswerable\". Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:",
     .question_begins = {"\n\n Answer the question based on the above article",
                         "\n\nAnswer the question based on the given passages."},
     .max_new = 128,
     .metric = "f1"},
    {.name = "multifieldqa_en",
     .head = "Read the following text and answer briefly.\n\n",
     .tail = "\n\nNow, answer the following question based on the above text, only give me the answer and do not "
             "output any other words.\n\nQuestion: {input}\nAnswer:",
     .max_new = 64,
     .metric = "f1"},
    {.name = "hotpotqa", .head = PASSAGES, .tail = ABOUT_PASSAGES, .max_new = 32, .metric = "f1"},
    {.name = "2wikimqa", .head = PASSAGES, .tail = ABOUT_PASSAGES, .max_new = 32, .metric = "f1"},
    {.name = "musique", .head = PASSAGES, .tail = ABOUT_PASSAGES, .max_new = 32, .metric = "f1"},
    {.name = "gov_report",
     .head = "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n",
     .tail = "\n\nNow, write a one-page summary of the report.\n\nSummary:",
     .max_new = 512,
     .metric = "rouge-l-longbench"},
    {.name = "qmsum",
     .head = "You are given a meeting transcript and a query containing a question or instruction. Answer the query in "
             "one or more sentences.\n\nTranscript:\n",
     .tail = "\n\nNow, answer the query based on the above meeting transcript in one or more sentences.\n\nQuery: "
             "{input}\nAnswer:",
     .max_new = 512,
     .metric = "rouge-l-longbench"},
    {.name = "multi_news",
     .head = "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n",
     .tail = "\n\nNow, write a one-page summary of all the news.\n\nSummary:",
     .max_new = 512,
     .metric = "rouge-l-longbench"},
    {.name = "trec",
     .head = "Please determine the type of the question below. Here are some examples of questions.\n\n",
     .tail = "\n{input}",
     .question_begins = {"\nQuestion:"},
     .max_new = 64,
     .plain = 1,
     .first_line = 1,
     .metric = "classification"},
    {.name = "triviaqa",
     .head = "Answer the question based on the given passage. Only give me the answer and do not output any other "
             "words. The following are some examples.\n\n",
     .tail = "\n\n{input}",
     .question_begins = {"Passage:"},
     .max_new = 32,
     .plain = 1,
     .first_line = 1,
     .metric = "f1"},
    {.name = "samsum",
     .head = "Summarize the dialogue into a few short sentences. The following are some examples.\n\n",
     .tail = "\n\n{input}",
     .question_begins = {"\n\nDialogue:"},
     .max_new = 128,
     .plain = 1,
     .first_line = 1,
     .metric = "rouge-l-longbench"},
    {.name = "lsht",
     .head = "请判断给定新闻的类别，下面是一些例子。\n\n",
     .tail = "\n{input}",
     .question_begins = {"\n新闻内容："},
     .max_new = 64,
     .plain = 1,
     .first_line = 1,
     .metric = "classification"},
    {.name = "passage_count",
     .head = "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully "
             "read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In "
             "other words, how many non-repeating paragraphs are there in total?\n\n",
     .tail = "\n\nPlease enter the final count of unique paragraphs after removing duplicates. The output format "
             "should only contain the number, such as 1, 2, 3, and so on.\n\nThe final answer is: ",
     .max_new = 32,
     .metric = "count"},
    {.name = "passage_retrieval_en",
     .head = "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the "
             "abstract is from.\n\n",
     .tail = "\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that the "
             "abstract is from. The answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\nThe answer "
             "is: ",
     .max_new = 32,
     .metric = "retrieval"},
    {.name = "passage_retrieval_zh",
     .head = "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n",
     .tail = "\n\n下面是一个摘要\n\n{input}"
             "\n\n请输入摘要所属段落的编号。答案格式必须是\"段落1\"，\"段落2\"等格式\n\n答案是：",
     .max_new = 32,
     .metric = "retrieval"},
    {.name = "lcc",
     .head = "Please complete the code given below. \n",
     .tail = "Next line of code:\n",
     .max_new = 64,
     .plain = 1,
     .metric = "code-similarity"},
    {.name = "repobench-p",
     .head = "Please complete the code given below. \n",
     .tail = "{input}Next line of code:\n",
     .question_begins = {"Next line of code:\n"},
     .max_new = 64,
     .plain = 1,
     .metric = "code-similarity"},
    {.name = "multifieldqa_zh",
     .head = "阅读以下文字并用中文简短回答：\n\n",
     .tail = "\n\n现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。\n\n问题：{input}\n回答：",
     .max_new = 64,
     .metric = "f1-chinese"},
    {.name = "dureader",
     .head = "请基于给定的文章回答下述问题。\n\n文章：",
     .tail = "\n\n请基于上述文章回答下面的问题。\n\n问题：{input}\n回答：",
     .max_new = 128,
     .metric = "rouge-l-chinese"},
    {.name = "vcsum",
     .head = "下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。\n会议记录：\n",
     .tail = "\n\n会议总结：",
     .max_new = 512,
     .metric = "rouge-l-chinese"},

    /* LongBench v2 (prompts/0shot.txt and pred.py) */
    {.name = "longbench-v2",
     .head = "Please read the following text and answer the question below.\n\n<text>\n",
     .tail = "\n</text>\n\nWhat is the correct answer to this question: {question}\nChoices:\n(A) {choice_A}\n"
             "(B) {choice_B}\n(C) {choice_C}\n(D) {choice_D}\n\nFormat your response as follows: \"The correct answer "
             "is (insert answer here)\".",
     .max_new = 128,
     .strips = 1,
     .metric = "stated-option"},

    /* InfiniteBench (Zhang et al., arXiv 2402.13718; OpenBMB/InfiniteBench 88b3daa, src/prompt.py: the prompts of
     * models with open weights, and src/eval_utils.py) */
    {.name = "passkey",
     .head = "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz "
             "you about the important information.\n\n",
     .tail = "\n\n{input}\n\nThe pass key is",
     .max_new = 6,
     .metric = "first-integer"},
    {.name = "number_string",
     .head = "There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the "
             "important information there.\n\n",
     .tail = "\n\n{input}\n\nThe sequence of digits is",
     .max_new = 12,
     .metric = "first-integer"},
    {.name = "kv_retrieval",
     .head = "Extract the value corresponding to the specified key in the JSON object below.\n\n",
     .tail = "\n\n{input}",
     .max_new = 50,
     .metric = "word"},
    {.name = "longbook_sum_eng",
     .head = "Summarize the book below.\n\n",
     .tail = "\n\nSummary:",
     .max_new = 1200,
     .metric = "rouge-l"},
    {.name = "longbook_choice_eng",
     .head = "Read the book and answer the question.\n\n",
     .tail = "\n\nQuestion: {input}" OPTIONS "The letter of the correct answer is",
     .max_new = 40,
     .metric = "option"},
    {.name = "longbook_qa_eng",
     .head = "Read the book and answer the question. Be very concise in your answer.\n\n",
     .tail = "\n\nQuestion: {input}\nAnswer:",
     .max_new = 40,
     .metric = "f1"},
    {.name = "longbook_qa_chn",
     .head = "阅读以下书籍然后回答问题。\n\n",
     .tail = "\n\n问题：{input}\n答案：",
     .max_new = 40,
     .metric = "f1-characters"},
    {.name = "longdialogue_qa_eng",
     .head = "Below is a dialogue script where one random occurrence of a character name is replaced with "
             "\"$$MASK$$\", and you should try to guess who that character is.\n\n",
     .tail = "\n\nThe name that has been replaced with $$MASK$$ is likely",
     .max_new = 40,
     .metric = "name"},
    {.name = "math_find",
     .head = "What is {target} in the following list?\n\n",
     .tail = "\n\n{input}",
     .max_new = 3,
     .metric = "first-number"},
    {.name = "math_calc",
     .head = "Let us calculate the intermediate values of an expression.\n\nExpression: 1 + 3 + 4\nValues: [1, 4, 8]"
             "\n\nExpression: 8 - 3 + 2 - 4\nValues: [8, 5, 7, 3]\n\nExpression: ",
     .tail = "\nValues:",
     .max_new = 30000,
     .metric = "leading-integers"},
    {.name = "code_run",
     .head = "There is a function called {function} in the following Python code.\n\n",
     .tail = "\n\nPlease compute the exact value of {call}. The value of {call} is",
     .max_new = 5,
     .metric = "last-integer"},
    {.name = "code_debug",
     .head = "Following is a Python code where exactly one of the functions/methods has a deliberate error that makes "
             "it crash.\n\n",
     .tail = "\n\nOptions:" OPTIONS "The correct option is:",
     .max_new = 5,
     .metric = "option-of-code"},
    {0}};
