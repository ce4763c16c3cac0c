/* Documents as requests: of a folder and of a table, in a template. */
#include "batch/documents.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch/input.h"
#include "batch/request.h"
#include "rig.h"
#include "suite.h"

static lh_status write_from(const char *from, const char *text, int chat)
{
    return lh_batch_documents_write(&(lh_batch_documents){.from = from, .text = text, .chat = chat}, "in.jsonl");
}

/* Request i has this custom_id and prompt, or message. */
static void check_request(int64_t i, const char *id, const char *prompt)
{
    static const lh_batch_defaults defaults = {.max_new = 16};
    lh_batch_input *input = NULL;
    lh_batch_request r;
    OK(lh_batch_input_open(&input, "in.jsonl"));
    ck_assert_int_gt(lh_batch_input_count(input), i);
    OK(lh_batch_request_read(&r, lh_batch_input_line(input, i), &defaults));
    ck_assert_str_eq(lh_batch_input_line(input, i)->custom_id, id);
    ck_assert_str_eq(r.api == LH_BATCH_CHAT ? r.messages.at[0].content : r.prompt, prompt);
    if (r.api == LH_BATCH_CHAT) ck_assert_str_eq(r.messages.at[0].role, "user");
    lh_batch_request_clear(&r);
    lh_batch_input_close(input);
}

START_TEST(test_texts_of_a_folder)
{
    rig_enter();
    mkdir("docs", 0777);
    rig_text("docs/b.md", "\xEF\xBB\xBFsecond \"text\"\n");
    rig_text("docs/a.txt", "first");
    rig_text("docs/c.txt", "bad \xFF byte, {text}");
    rig_text("docs/d.pdf", "not a text");
    OK(write_from("docs", "{{{name}}}: {text}|{text}", 0));
    check_request(0, "a.txt", "{a.txt}: first|first");
    check_request(1, "b.md", "{b.md}: second \"text\"\n|second \"text\"\n");
    check_request(2, "c.txt", "{c.txt}: bad \xEF\xBF\xBD byte, {text}|bad \xEF\xBF\xBD byte, {text}");
    OK(write_from("docs", "Q: {text}", 1));
    check_request(0, "a.txt", "Q: first");
    rig_leave();
}
END_TEST

/* Names in Latin-1 become one name where their bytes become U+FFFD. */
START_TEST(test_names_that_are_not_utf8_stay_different)
{
    rig_enter();
    mkdir("docs", 0777);
    rig_text("docs/caf\xe8.txt", "first");
    rig_text("docs/caf\xe9.txt", "second");
    rig_text("docs/caf\xef\xbf\xbd.txt", "third");
    rig_text("docs/c\xc3\xa9\\\xe9.TXT", "fourth");
    OK(write_from("docs", "{text}", 0));
    check_request(3, "c\xc3\xa9\\x5c\\xe9.TXT", "fourth");
    check_request(0, "caf\\xe8.txt", "first");
    check_request(1, "caf\\xe9.txt", "second");
    check_request(2, "caf\xef\xbf\xbd.txt", "third");
    rig_text("t.csv", "id,text\ncaf\xe8,first\ncaf\xe9,second\nC:\\a,third\n");
    OK(write_from("t.csv", "{text}", 0));
    check_request(0, "caf\\xe8", "first");
    check_request(1, "caf\\xe9", "second");
    check_request(2, "C:\\a", "third");
    rig_text("t.csv", "\xFF\xFEi");
    FAILS(write_from("t.csv", "{text}", 0), LH_EINPUT, "'t.csv' is UTF-16");
    rig_text("t.csv", "id,text,text\nx,a,b\n");
    FAILS(write_from("t.csv", "{text}", 0), LH_EINPUT, "the columns 2 and 3 are both called 'text'");
    rig_text("t.csv", "id,text,,\nx,a,,\n");
    OK(write_from("t.csv", "{text}", 0));
    rig_text("t.csv", "id,text\rx,a\r");
    FAILS(write_from("t.csv", "{text}", 0), LH_EINPUT, "'t.csv' has carriage returns in place of line feeds");
    rig_leave();
}
END_TEST

START_TEST(test_rows_of_a_table)
{
    rig_enter();
    rig_text("t.csv", "id,title,text\nx,\"One, two\",\"line\nend\"\ny,,plain\n");
    OK(write_from("t.csv", "{title}: {text}", 0));
    check_request(0, "x", "One, two: line\nend");
    check_request(1, "y", ": plain");
    rig_text("t.csv", "id,text\n,a\nx,b\n");
    OK(write_from("t.csv", "{text}", 0));
    check_request(0, "row-1", "a");
    check_request(1, "x", "b");
    rig_text("t.csv", "text\na\nb\n");
    OK(write_from("t.csv", "{text}", 0));
    check_request(1, "row-2", "b");
    rig_leave();
}
END_TEST

START_TEST(test_what_makes_no_request)
{
    rig_enter();
    mkdir("docs", 0777);
    FAILS(write_from("docs", "{text}", 0), LH_EINPUT, "has no text");
    rig_text("docs/a.txt", "%PDF-1.7 and more");
    FAILS(write_from("docs", "{text}", 0), LH_EINPUT, "a.txt' is a PDF, not text: 'pdftotext");
    rig_text("docs/a.txt", "\xFF\xFE of UTF-16");
    FAILS(write_from("docs", "{text}", 0), LH_EINPUT, "a.txt' is UTF-16, not UTF-8");
    rig_text("docs/a.txt", "first");
    FAILS(write_from("docs", "What?", 0), LH_EUSAGE,
          "has nothing of the document: of 'docs' it can have '{name}', '{text}'");
    FAILS(write_from("docs", "{texts}", 0), LH_EUSAGE, "names a column that is not there");
    FAILS(write_from("docs", "{text", 0), LH_EUSAGE, "a '{' without its '}'");
    FAILS(write_from("docs", "{text}}", 0), LH_EUSAGE, "a '}' without its '{'");
    FAILS(write_from("none", "{text}", 0), LH_EINPUT, "none");
    rig_text("t.csv", "a,b\n1,2,3\n");
    FAILS(write_from("t.csv", "{a}", 0), LH_EINPUT, "the row in line 2 has 3 fields, and there are 2 columns");
    rig_text("t.csv", "a,b\n");
    FAILS(write_from("t.csv", "{a}", 0), LH_EINPUT, "no row");
    rig_text("t.csv", "\n");
    FAILS(write_from("t.csv", "{a}", 0), LH_EINPUT, "is empty");
    ck_assert_int_eq(rig_size("in.jsonl"), -1); /* nothing is left */
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_texts_of_a_folder, test_names_that_are_not_utf8_stay_different,
                                  test_rows_of_a_table, test_what_makes_no_request, NULL};
    return suite_run("batch documents", tests);
}
