/*
 * The table of byte kinds, and the two loops that look at several bytes at a time.
 */
#include "bytes.h"
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define VISIBLE (NB_TARGET | NB_VALUE)
#define SUB_DELIM (VISIBLE | NB_HOST)
#define NAME (VISIBLE | NB_TOKEN)
#define BOTH (VISIBLE | NB_TOKEN | NB_HOST)

/* Bytes that are not listed have no kind: the controls, NUL and DEL among them. */
const uint8_t nb_bytes[256] = {
    ['\t'] = NB_VALUE, [' '] = NB_VALUE,
    ['!'] = BOTH, ['"'] = VISIBLE, ['#'] = NB_VALUE | NB_TOKEN, ['$'] = BOTH, ['%'] = NAME, ['&'] = BOTH,
    ['\''] = BOTH, ['('] = SUB_DELIM, [')'] = SUB_DELIM, ['*'] = BOTH, ['+'] = BOTH, [','] = SUB_DELIM,
    ['-'] = BOTH, ['.'] = BOTH, ['/'] = VISIBLE,
    ['0' ... '9'] = BOTH | NB_HEX | NB_DIGIT,
    [':'] = VISIBLE, [';'] = SUB_DELIM, ['<'] = VISIBLE, ['='] = SUB_DELIM, ['>'] = VISIBLE, ['?'] = VISIBLE,
    ['@'] = VISIBLE,
    ['A' ... 'F'] = BOTH | NB_HEX, ['G' ... 'Z'] = BOTH,
    ['['] = VISIBLE, ['\\'] = VISIBLE, [']'] = VISIBLE, ['^'] = NAME, ['_'] = BOTH, ['`'] = NAME,
    ['a' ... 'f'] = BOTH | NB_HEX, ['g' ... 'z'] = BOTH,
    ['{'] = VISIBLE, ['|'] = NAME, ['}'] = VISIBLE, ['~'] = BOTH,
    [0x80 ... 0xff] = NB_VALUE,
};

/* Whole words at a time while none has a control byte in it; a tab only costs the slower look at its own word. */
#ifdef __SSE2__
typedef __m128i word_t;

static inline bool plain(const uint8_t *at) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)at);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    __m128i delete = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
    return _mm_movemask_epi8(_mm_or_si128(low, delete)) == 0;
}
#else
typedef uint64_t word_t;

static inline bool plain(const uint8_t *at) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    uint64_t bytes, other;
    memcpy(&bytes, at, sizeof bytes);
    other = bytes ^ (ones * 0x7f);
    return ((((bytes - ones * 0x20) & ~bytes) | ((other - ones) & ~other)) & tops) == 0;
}
#endif

const uint8_t *nb_value_end(const uint8_t *at, const uint8_t *end) {
    while ((size_t)(end - at) >= sizeof(word_t)) {
        const uint8_t *next = at + sizeof(word_t);
        if (!plain(at))
            for (; at < next; at++)
                if (!nb_is(*at, NB_VALUE)) return at;
        at = next;
    }
    while (at < end && nb_is(*at, NB_VALUE)) at++;
    return at;
}

bool nb_same_word(const uint8_t *text, const char *word, uint32_t length) {
    const uint64_t bit = UINT64_C(0x2020202020202020);
    uint64_t a, b;
    for (; length >= sizeof a; length -= sizeof a, text += sizeof a, word += sizeof a) {
        memcpy(&a, text, sizeof a);
        memcpy(&b, word, sizeof b);
        if ((a | bit) != b) return false;
    }
    for (; length; length--, text++, word++)
        if ((*text | 0x20) != (uint8_t)*word) return false;
    return true;
}
