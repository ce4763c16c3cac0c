/* tables.h - reads back the tables that base/table.h writes into an analysis file, with any columns. Foreign
 * files are checked; messages name file, table and column. */
#ifndef LH_LAB_ANALYSIS_TABLES_H
#define LH_LAB_ANALYSIS_TABLES_H

#include "base/table.h"

typedef struct lh_stored_table {
    char *name;         /* of its group, without the first '/': "needle/means" */
    lh_column *columns; /* of `table`, in the order in which they were written; owned, names too */
    lh_table table;
} lh_stored_table;

/* In the order of their names. */
typedef struct lh_tables {
    lh_stored_table *list;
    int64_t count;
} lh_tables;

/* A group is a table if its arrays and texts have the attribute `unit`. LH_EFILE if they do not have one length. */
lh_status lh_tables_read(lh_tables *out, lh_h5 *h5);
void lh_tables_clear(lh_tables *tables);

/* Index of a column; -1: none. */
int64_t lh_table_column_find(const lh_table *table, const char *name);

#endif
