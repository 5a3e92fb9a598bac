/*
 * The kinds of refusals: requests that the server itself turns away. refusals.c has their names and statuses.
 *
 *     nb_refusal_t refusal = {NB_REFUSED_BODY_TIMEOUT, "the request's body did not come in time"};
 *     nb_refused(connection, &refusal); // counts it, and tells the error log
 */
#ifndef NB_HTTP_REFUSALS_H
#define NB_HTTP_REFUSALS_H

#include "parser.h"

typedef enum {
    NB_REFUSED_NOT,
    NB_REFUSED_QUEUE_LIMIT, NB_REFUSED_QUEUE_MAX_WAIT, NB_REFUSED_MAX_QUEUE_TIME,
    NB_REFUSED_FIBER, NB_REFUSED_BODY_QUOTA, NB_REFUSED_BODY_FILE,
    NB_REFUSED_HEAD_TIMEOUT, NB_REFUSED_BODY_TIMEOUT, NB_REFUSED_MIN_BODY_RATE,
    NB_REFUSED_BAD_REQUEST, /* from here on what the parsers find: each has a status of its own */
    NB_REFUSED_CONTENT_TOO_LARGE, NB_REFUSED_URI_TOO_LONG, NB_REFUSED_EXPECTATION_FAILED, NB_REFUSED_FIELDS_TOO_LARGE,
    NB_REFUSED_NOT_IMPLEMENTED, NB_REFUSED_VERSION,
    NB_REFUSALS,
} nb_refusal_kind_t;

typedef struct {
    nb_refusal_kind_t kind;
    const char *text;          /* for the client: a constant */
    char detail[160];          /* for the log; empty: the text */
} nb_refusal_t;

#define NB_BUSY "the server is busy" /* the text of all refusals by the queue */

const char *nb_refusal_name(nb_refusal_kind_t);
int nb_refusal_status(nb_refusal_kind_t);

/* For what a parser found: its status, and its reason as the text. */
nb_refusal_t nb_refusal_of(int status, const char *text);
nb_refusal_t nb_refusal_of_head(const nb_head_limits_t *, int status, const char *text, const char *bytes,
                                size_t length);
nb_refusal_t nb_refusal_too_large(uint64_t max_body_size);

#endif
