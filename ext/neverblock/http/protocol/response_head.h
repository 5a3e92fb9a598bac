/*
 * The strict parser of HTTP/1.1 response heads (RFC 9112), for the client of the proxy. Lines and fields are read by
 * the same code as a request's, under the same rules; where a response ends is decided in one place (fields.c).
 *
 *     nb_head_t head = {.scanned = scanned};                   // 0 for a new head, as in parser.h
 *     switch (nb_response_parse(bytes, length, &head, &limits, to_head, &reason)) {
 *     case NB_HEAD_MORE: scanned = head.scanned; ...           // call again with the same bytes and those that came
 *     case NB_HEAD_COMPLETE: head.framing ...                  // the content begins at bytes + head.head_length
 *     default: ...                                             // NB_RESPONSE_INVALID: close the connection
 *     }
 *
 * An interim response (1xx) is a head of its own; the next one begins behind it. Of nb_head_t a response sets status,
 * phrase, minor, framing, length, keep_alive, upgrade and the fields.
 */
#ifndef NB_HTTP_RESPONSE_HEAD_H
#define NB_HTTP_RESPONSE_HEAD_H

#include "parser.h"

#define NB_RESPONSE_INVALID 502
#define NB_MAX_PHRASE 1024 /* bytes of a reason phrase */

/* to_head: whether the request's method was HEAD. limits->uri has no meaning here. *reason: a short English phrase, a
 * constant, if the head is invalid; nothing but scanned may be read from it then. */
int nb_response_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits, bool to_head,
                      const char **reason);

/* Reads a whole trailer section: field lines and the empty line (RFC 9112 §7.1.2). Of head only the fields and
 * head_length are set. NB_HEAD_MORE if the empty line is missing. A field that delimits messages is refused. */
int nb_trailers_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits,
                      const char **reason);

#endif
