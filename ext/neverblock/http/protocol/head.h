/*
 * What the parts of the head's parser share: parser.c reads lines, target.c the request target and authorities,
 * response_head.c the status line, fields.c the fields that say where the message ends and what becomes of the
 * connection.
 */
#ifndef NB_HTTP_HEAD_H
#define NB_HTTP_HEAD_H

#include "bytes.h"
#include "parser.h"

typedef enum { NB_OF_REQUEST, NB_OF_RESPONSE, NB_OF_TRAILERS } nb_section_t;

typedef struct {
    const uint8_t *base, *end; /* the bytes, no further than the limit for heads */
    nb_head_t *head;
    const nb_head_limits_t *limits;
    const char **reason;
    nb_section_t section;
    bool to_head; /* of a response: to HEAD */
} nb_reader_t;

static inline int nb_refuse(const nb_reader_t *in, int status, const char *reason) {
    *in->reason = reason;
    return status;
}

static inline nb_span_t nb_span(const nb_reader_t *in, const uint8_t *from, const uint8_t *to) {
    return (nb_span_t){(uint32_t)(from - in->base), (uint32_t)(to - from)};
}

/* Reads head->target by the method: its form, path, query, authority. A status or 0. */
int nb_target_read(const nb_reader_t *);

/* Whether the span is uri-host [":" port] with a host in it. Tells where the host ends, and the port or -1. */
bool nb_authority_read(const nb_reader_t *, nb_span_t authority, nb_span_t *name, int32_t *port);

/* Whether the absolute-form target and the Host field name the same place. */
bool nb_authority_agrees(const nb_reader_t *, nb_span_t host);

/* Reads a head of either kind, once for a head in one piece. */
int nb_head_read(const nb_reader_t *);

/* Reads field lines up to and with the empty line. */
int nb_field_lines(const nb_reader_t *, const uint8_t *at);

/* The first line of a response; as for a request's, *cursor is at its first byte, then at that of the next line. */
int nb_status_line(const nb_reader_t *, const uint8_t **cursor);

/* A field that means something to us has been read: a status or 0. */
int nb_field_note(const nb_reader_t *, const nb_field_t *);

/* All fields have been read: what they mean together, in a request or a response. A status or 0. */
int nb_fields_judge(const nb_reader_t *);

#endif
