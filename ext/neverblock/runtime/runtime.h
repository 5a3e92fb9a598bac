/* What the Ruby of lib/neverblock needs and Ruby can't say. */
#ifndef NB_RUNTIME_H
#define NB_RUNTIME_H
#include <ruby.h>

extern VALUE nb_mNeverBlock;

void nb_init_unwinding(void);

#endif
