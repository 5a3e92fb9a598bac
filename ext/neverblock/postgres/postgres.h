/* PostgreSQL's part of the extension. */
#ifndef NB_POSTGRES_H
#define NB_POSTGRES_H
#include <ruby.h>
#include <stdbool.h>

extern VALUE nb_mNeverBlock;

void nb_init_libpq(void);

#endif
