/*
 * The strict parser of HTTP/1.1 request heads (RFC 9112). It knows no Ruby, keeps no pointer and allocates nothing:
 * everything it tells are offsets into the caller's buffer, which may move between two calls.
 *
 * The protocol layer:
 *
 *     parser.c        request heads: their lines; target.c: the request target; fields.c: where a message ends
 *     response_head.c heads of responses, for the proxy's client, and trailers; the lines and fields are parser.c's
 *     header_names.c  field names that are common; bytes.c: kinds of bytes
 *     chunks.c        chunked bodies
 *     proxy.c         PROXY headers
 *     forwarded.c     the client's address as proxies tell it; address.c: IP addresses
 *     refusals.c      the kinds of refusals, with the status of each; status.c: reason phrases
 *
 *     nb_head_t head = {.scanned = connection->scanned};        // 0 for a new head; nothing else needs to be set
 *     switch (nb_head_parse(bytes, length, &head, &limits, &reason)) {
 *     case NB_HEAD_MORE: connection->scanned = head.scanned;    // call again with the same bytes and those that came
 *     case NB_HEAD_COMPLETE: ...                                // the next thing begins at bytes + head.head_length
 *     default: ...                                              // a status: respond with it and close
 *     }
 *
 * The outcome depends on the bytes alone, never on how they were cut into pieces, and takes linear time however they
 * come. Until the head is complete only these are refused: control bytes, a bad request line, too many bytes.
 */
#ifndef NB_HTTP_PARSER_H
#define NB_HTTP_PARSER_H

#include "header_names.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_MAX_FIELDS 128
#define NB_MAX_METHOD 32  /* bytes: over that 501; the longest registered method has 17 */
#define NB_MAX_NAME 256   /* bytes of a field's name: over that 431 */

typedef struct { uint32_t at, length; } nb_span_t;

typedef struct {
    nb_span_t name, value; /* as sent; the value without the blanks around it */
    uint8_t known;         /* index in nb_known_names, 0: none of them */
} nb_field_t;

typedef struct {
    uint32_t uri, head, fields; /* bytes of the request target and of the whole head; count, at most NB_MAX_FIELDS */
} nb_head_limits_t;

typedef enum { NB_FORM_ORIGIN, NB_FORM_ABSOLUTE, NB_FORM_AUTHORITY, NB_FORM_ASTERISK } nb_target_form_t;

enum { /* method_id; a method that is none of these is for the app to judge */
    NB_METHOD_OTHER, NB_METHOD_GET, NB_METHOD_HEAD, NB_METHOD_POST, NB_METHOD_PUT, NB_METHOD_DELETE, NB_METHOD_PATCH,
    NB_METHOD_OPTIONS, NB_METHOD_TRACE, NB_METHOD_CONNECT, NB_METHODS
};

/* Reasons that stand for a limit. */
#define NB_TARGET_TOO_LONG "the request target is too long"
#define NB_LINE_TOO_LONG "the request line is too long"
#define NB_HEAD_TOO_LONG "the head is too long"
#define NB_TOO_MANY_FIELDS "too many fields"

extern const char *const nb_method_names[NB_METHODS];

enum { NB_HEAD_MORE = 0, NB_HEAD_COMPLETE = 1 };

/* How a response's content is delimited: RFC 9112 §6.3. */
typedef enum { NB_DELIMITED_EMPTY, NB_DELIMITED_LENGTH, NB_DELIMITED_CHUNKED, NB_DELIMITED_CLOSE } nb_delimiter_t;

typedef struct {
    uint32_t scanned;         /* in and out: how far earlier calls looked; kept by the caller until it is complete */
    nb_span_t method, target;
    nb_span_t path, query;    /* of the target, nothing decoded; in the absolute form the path may be empty: "/" */
    nb_span_t authority;      /* of an absolute-form target */
    nb_span_t host;           /* the one that counts: authority, else the Host field; length 0: none */
    nb_span_t server_name;    /* of host: without the port, with the brackets of an IPv6 address */
    uint16_t server_port;     /* of host; 0: it names none */
    uint8_t method_id, minor;
    nb_target_form_t form;
    bool chunked, has_length, keep_alive;
    bool expect_continue;     /* and there is a body to wait for */
    bool upgrade;             /* HTTP/1.1, Connection lists upgrade and there is an Upgrade field */
    uint16_t status;          /* of a response, as are the two that follow: response_head.h */
    nb_span_t phrase;
    nb_delimiter_t framing;
    uint16_t seen;            /* the parser's notes: fields.c */
    uint64_t length;          /* Content-Length: at most INT64_MAX */
    uint32_t field_count, head_length; /* head_length: bytes up to and with the empty line */
    nb_field_t fields[NB_MAX_FIELDS];
} nb_head_t;

/* NB_HEAD_MORE, NB_HEAD_COMPLETE or a status (400, 413, 414, 417, 431, 501, 505) with *reason a short English phrase,
 * a constant. A head that is refused has nothing to be read from but scanned. */
int nb_head_parse(const char *buffer, size_t length, nb_head_t *head, const nb_head_limits_t *limits,
                  const char **reason);

#endif
