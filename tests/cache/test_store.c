/* The folder of --context-cache: an entry that is read stays, an entry of another identity is not found, and removal
 * begins with the least recently used entry. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/output.h"
#include "base/temporary.h"
#include "cache/store.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

static json_t *identity_of(int number)
{
    return json_pack("{s:i}", "tokens", number);
}

/* Writes an entry of 1,000 bytes, under the name of `name` and with the identity of `identity`. */
static void write_entry(int name, int identity)
{
    static const char text[1000] = "a cache";
    json_t *named = identity_of(name), *of = identity_of(identity), *about = json_object();
    lh_store_entry e;
    OK(lh_store_name(&e, "store", named));
    OK(lh_store_claim(&e));
    OK(lh_file_write(e.cache, text, sizeof text));
    OK(lh_store_commit(&e, of, about, 0));
    lh_store_clear(&e);
    json_decref(named), json_decref(of), json_decref(about);
}

static lh_store_state look(lh_store_entry *e, int number)
{
    lh_store_state state;
    json_t *identity = identity_of(number);
    OK(lh_store_name(e, "store", identity));
    OK(lh_store_look(e, identity, &state));
    json_decref(identity);
    return state;
}

static void begin(void)
{
    static char folder[TEMPORARY_BYTES];
    ck_assert(mkdtemp(temporary_name(folder, "/tmp")) && chdir(folder) == 0);
    OK(lh_store_make("store"));
}

START_TEST(test_an_entry_that_is_read_is_not_removed)
{
    lh_store_entry reader, other;
    begin();
    write_entry(1, 1);
    ck_assert_int_eq(look(&reader, 1), LH_STORE_WHOLE);
    OK(lh_store_sweep("store", 1));
    ck_assert(lh_file_exists(reader.cache) && lh_file_exists(reader.description));
    ck_assert_int_eq(look(&other, 1), LH_STORE_WHOLE); /* any number of readers */
    lh_store_release(&reader);
    OK(lh_store_sweep("store", 1));
    ck_assert(lh_file_exists(reader.cache));
    lh_store_clear(&other);
    OK(lh_store_sweep("store", 1));
    ck_assert(!lh_file_exists(reader.cache) && !lh_file_exists(reader.description));
    lh_store_clear(&reader);
}
END_TEST

START_TEST(test_an_entry_with_the_same_hash_is_not_taken_for_another)
{
    lh_store_entry e;
    begin();
    write_entry(1, 2);
    ck_assert_int_eq(look(&e, 1), LH_STORE_ABSENT);
    lh_store_clear(&e);
    ck_assert_int_eq(look(&e, 3), LH_STORE_ABSENT);
    lh_store_clear(&e);
}
END_TEST

START_TEST(test_the_least_recently_used_entry_goes_first)
{
    lh_store_entry e;
    json_t *all = NULL;
    begin();
    for (int i = 1; i <= 3; i++, usleep(20000)) write_entry(i, i);
    ck_assert_int_eq(look(&e, 1), LH_STORE_WHOLE);
    lh_store_clear(&e);
    OK(lh_store_list("store", &all));
    ck_assert_uint_eq(json_array_size(all), 3);
    const json_int_t bytes = json_integer_value(json_object_get(json_array_get(all, 0), "bytes"));
    json_decref(all);
    OK(lh_store_sweep("store", 2 * bytes + 100));
    ck_assert_int_eq(look(&e, 2), LH_STORE_ABSENT);
    lh_store_clear(&e);
    ck_assert_int_eq(look(&e, 1), LH_STORE_WHOLE);
    lh_store_clear(&e);
    ck_assert_int_eq(look(&e, 3), LH_STORE_WHOLE);
    lh_store_clear(&e);
}
END_TEST

START_TEST(test_a_cache_beyond_the_limit_is_not_kept)
{
    json_t *identity = identity_of(1), *about = json_object();
    lh_store_entry e;
    begin();
    OK(lh_store_name(&e, "store", identity));
    OK(lh_store_claim(&e));
    OK(lh_file_write(e.cache, "a cache", 7));
    ck_assert_int_eq(lh_store_commit(&e, identity, about, 6), LH_EWRITE);
    lh_error_clear();
    ck_assert(!lh_file_exists(e.cache) && !lh_file_exists(e.description));
    lh_store_clear(&e);
    json_decref(identity), json_decref(about);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_an_entry_that_is_read_is_not_removed, test_an_entry_with_the_same_hash_is_not_taken_for_another,
        test_the_least_recently_used_entry_goes_first, test_a_cache_beyond_the_limit_is_not_kept, NULL};
    return suite_run("store", tests);
}
