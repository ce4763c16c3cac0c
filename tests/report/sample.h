/* sample.h - analyses for tests of the report: one as a replay of six policies would leave it, and one whose every text
 * tries to leave its place in the page. */
#ifndef LH_TESTS_REPORT_SAMPLE_H
#define LH_TESTS_REPORT_SAMPLE_H

#include "base/status.h"

/* Of `hostile`: what each text holds. It would set the title of the page to "taken", if it ran. */
extern const char *const sample_hostile_text;

lh_status sample_write(const char *path);
lh_status sample_write_hostile(const char *path);

#endif
