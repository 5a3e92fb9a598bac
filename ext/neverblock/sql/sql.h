/* What both databases' parts ask of a statement's text. */
#ifndef NB_SQL_H
#define NB_SQL_H
#include <ruby.h>
#include <stdbool.h>

extern VALUE nb_mNeverBlock;

void nb_init_sql_shape(void);

#endif
