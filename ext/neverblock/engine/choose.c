/* Chooses the back end: the one that was asked for, or the best that opens here. */
#include "internal.h"
#include <errno.h>
#include <string.h>

static const nb_backend_t *const known[] = {
#ifdef HAVE_SYS_EPOLL_H
    &nb_backend_epoll,
#ifdef HAVE_LIBURING
    &nb_backend_uring,
#endif
#endif
    &nb_backend_poll,
};

const char *nb_backend_name(size_t index) { return index < sizeof known / sizeof *known ? known[index]->name : NULL; }

const nb_backend_t *nb_backend_choose(nb_engine_t *engine, const char *name, const char **reason, int *failure) {
    *failure = ENOENT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (name && strcmp(name, known[i]->name)) continue;
        *failure = known[i]->open(engine);
        if (*failure && name) return NULL;
        if (*failure) continue;
        *reason = name ? "NEVERBLOCK_ENGINE asks for it" : i == 0 ? "the fastest for readiness that this kernel has"
                                                                  : "the preferred ones could not be opened here";
        return known[i];
    }
    return NULL;
}
