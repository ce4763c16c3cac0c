/* Chat formats against the golden conversations of six published models, in the folder LONGHAUL_TEST_DATA. */
#include <stdio.h>

#include "chat_rows.h"
#include "suite.h"

static char golden_folder[512];

static void resolve_golden(const json_t *row, const lh_chat_format **format)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/chat-templates/%s.jinja", golden_folder,
             json_string_value(json_object_get(row, "template_of")));
    ck_assert_msg(lh_chat_resolve(format, path) == LH_OK, "%s", lh_error_message());
}

START_TEST(test_golden_conversations)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    char path[1024];
    snprintf(golden_folder, sizeof golden_folder, "%s", folder ? folder : LH_TEST_DATA);
    snprintf(path, sizeof path, "%s/golden/chat.jsonl", golden_folder);
    if (lh_file_exists(path))
        printf("%d conversations agree\n", check_file(path, resolve_golden));
    else
        printf("skipped: there is no '%s'\n", path);
}
END_TEST

int main(void)
{
    return suite_run("chat formats of published models", (const TTest *const[]){test_golden_conversations, NULL});
}
