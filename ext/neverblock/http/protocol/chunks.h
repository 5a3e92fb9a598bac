/*
 * The decoder of chunked bodies (RFC 9112 §7.1), a byte at a time where it must and a span at a time where it can. It
 * keeps no bytes: what it has been fed may be dropped.
 *
 *     nb_chunks_t chunks = {0};
 *     while ((outcome = nb_chunks_feed(&chunks, bytes, length, &consumed, &data, &reason)) == NB_CHUNKS_DATA) {
 *         collect(bytes + data.at, data.length);
 *         bytes += consumed, length -= consumed;
 *     }
 *     // NB_CHUNKS_MORE: all was consumed; NB_CHUNKS_END: the rest, from consumed on, is the next request's
 *
 * Extensions are passed over and trailers validated and dropped, all within limits. Chunks of a single byte are within
 * them: a client may send what it has as it has it. So nb_chunks_gather decodes all that was received at once.
 */
#ifndef NB_HTTP_CHUNKS_H
#define NB_HTTP_CHUNKS_H

#include "parser.h"

#define NB_CHUNK_DIGITS 16        /* of a size, leading zeros too */
#define NB_CHUNK_LINE 4096        /* bytes of one chunk's extensions */
#define NB_CHUNK_ALLOWANCE 16     /* bytes of framing that a chunk may bring, beside twice its data: as in Go */
#define NB_CHUNK_EXCESS 16384     /* … and of a body beyond that: node's CVE-2024-22019, puma's CVE-2024-21647 */
#define NB_TRAILERS 16384         /* bytes of the trailer section */

enum { NB_CHUNKS_MORE = 0, NB_CHUNKS_DATA = 1, NB_CHUNKS_END = 2 };

typedef struct { /* zeroed: the beginning of a body */
    uint64_t remaining;  /* of this chunk's data */
    uint32_t line, excess, trailers;
    uint8_t state, digits;
} nb_chunks_t;

/* Consumes bytes up to and with the next span of data, if there is one: *data, offsets into in. Or a status (400, 413),
 * with *reason a short English phrase, a constant; it stays refused. */
int nb_chunks_feed(nb_chunks_t *, const char *in, size_t length, size_t *consumed, nb_span_t *data,
                   const char **reason);

/* Decodes all that is there, in place: *gathered bytes of data are in front then, and what was not consumed where it
 * was. NB_CHUNKS_MORE, NB_CHUNKS_END or a status. */
int nb_chunks_gather(nb_chunks_t *, char *bytes, size_t length, size_t *consumed, size_t *gathered,
                     const char **reason);

#endif
