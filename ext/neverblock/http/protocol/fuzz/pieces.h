/*
 * What the parts of the fuzz target share: what must be true, and the pieces in which bytes come.
 *
 *     pieces_t pieces = {plans[1], (uint32_t)size};
 *     size_t piece = next_piece(&pieces, size - given);
 *     MUST(piece <= size - given);
 */
#ifndef NB_FUZZ_PIECES_H
#define NB_FUZZ_PIECES_H

#include "../parser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition) ((condition) ? (void)0 : broken(#condition, __FILE__, __LINE__))

static inline void broken(const char *condition, const char *file, int line) {
    fprintf(stderr, "not true, %s line %d: %s\n", file, line, condition);
    abort();
}

static inline char *room_for(size_t length) {
    char *room = malloc(length ? length : 1);
    if (!room) abort();
    return room;
}

static inline char *copy_of(const uint8_t *bytes, size_t length) { return memcpy(room_for(length), bytes, length); }

/* The pieces something comes in: 0: all at once; 1: byte by byte; else pieces of pseudo-random sizes up to that. */
typedef struct { unsigned most; uint32_t random; } pieces_t;

static inline size_t next_piece(pieces_t *pieces, size_t left) {
    pieces->random = pieces->random * 1664525u + 1013904223u;
    size_t size = pieces->most ? 1 + (pieces->random >> 8) % pieces->most : left;
    return size < left ? size : left;
}

static const unsigned plans[] = {0, 1, 7, 100};
#define PLANS (sizeof plans / sizeof *plans)

static inline void check_status(int status, const char *reason) {
    static const int allowed[] = {400, 413, 414, 417, 431, 501, 505};
    MUST(reason && *reason);
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (status == allowed[i]) return;
    MUST(!"a status the parser may answer with");
}

typedef enum { REQUEST, RESPONSE, RESPONSE_TO_HEAD } kind_t;

/* heads.c */
void try_head(kind_t, const uint8_t *bytes, size_t size, const nb_head_limits_t *);
void try_trailers(const uint8_t *bytes, size_t size, const nb_head_limits_t *);

#endif
