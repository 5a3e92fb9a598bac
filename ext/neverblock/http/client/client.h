/*
 * The client layer: what the proxy's client in lib/neverblock/proxy asks of the protocol layer.
 *
 *     field_lines.c       the lines of a request's fields, checked
 *     response_parser.c   response heads, chunked content and trailers as Ruby objects
 */
#ifndef NB_HTTP_CLIENT_H
#define NB_HTTP_CLIENT_H
#include <ruby.h>
#include <stdbool.h>

extern VALUE nb_mNeverBlock;

void nb_init_field_lines(void);
void nb_init_response_parser(void);

#endif
