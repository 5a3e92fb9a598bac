/*
 * What kinds of thing a byte may stand in, one table for all of HTTP's grammars.
 *
 *     if (!nb_is(*at, NB_TOKEN)) return refuse(...);
 */
#ifndef NB_HTTP_BYTES_H
#define NB_HTTP_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NB_TOKEN = 1,   /* of a method or a field name: RFC 9110 §5.6.2 */
    NB_TARGET = 2,  /* of a request target: visible ASCII but for the fragment's '#' (see parser.c) */
    NB_VALUE = 4,   /* of a field value: SP, HTAB, visible ASCII, 0x80 and above (RFC 9110 §5.5) */
    NB_HOST = 8,    /* of a registered name, escapes aside: unreserved and sub-delims of RFC 3986 §3.2.2 */
    NB_HEX = 16,
    NB_DIGIT = 32,
};

extern const uint8_t nb_bytes[256];

static inline bool nb_is(uint8_t byte, uint8_t kind) { return nb_bytes[byte] & kind; }
static inline bool nb_is_blank(uint8_t byte) { return byte == ' ' || byte == '\t'; } /* OWS, RFC 9110 §5.6.3 */
static inline unsigned nb_hex_digit(uint8_t digit) { return (digit & 15u) + (digit >> 6) * 9u; }

/* The first byte that no field value may have (CR is the usual one), or end. */
const uint8_t *nb_value_end(const uint8_t *at, const uint8_t *end);

/* Whether length bytes are the lower-case word, in any case. Bytes of the text are visible ASCII or blanks; the word
 * has letters, digits and '-' only, for which setting bit 5 makes no two different ones alike. */
bool nb_same_word(const uint8_t *text, const char *word, uint32_t length);

#endif
