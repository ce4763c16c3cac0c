/* version.h - which Longhaul this is; made when it is built. */
#ifndef LH_BASE_VERSION_H
#define LH_BASE_VERSION_H

const char *lh_version(void);       /* "0.1.0" */
const char *lh_version_git(void);   /* "8cf5acc", with "-dirty" where files differed; "" outside a repository */
const char *lh_version_build(void); /* "gcc 12.2.0, Release" */

#endif
