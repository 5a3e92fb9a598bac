/* See proxy.h. */
#include "proxy.h"
#include "address.h"
#include <string.h>
#include <sys/socket.h>

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n", word[] = "PROXY ";
#define SIGNATURE (sizeof signature - 1)
#define WORD (sizeof word - 1)
#define BLOCK_AT 16 /* version 2's addresses */

static nb_proxy_outcome_t invalid(const char **reason, const char *why) {
    *reason = why;
    return NB_PROXY_INVALID;
}

/* Compares the bytes that have come. */
static bool begins(const char *bytes, size_t length, const char *with, size_t with_length) {
    return memcmp(bytes, with, length < with_length ? length : with_length) == 0;
}

/* ---- version 1 ---- */
typedef struct { const char *at, *end; } words_t;

/* The next word, with the one blank behind it; the last one has none. */
static bool next_word(words_t *line, const char **from, size_t *length, bool last) {
    const char *blank = memchr(line->at, ' ', (size_t)(line->end - line->at));
    const char *end = blank ? blank : line->end;
    *from = line->at;
    *length = (size_t)(end - line->at);
    line->at = blank ? blank + 1 : line->end;
    return last ? !blank : blank != NULL;
}

/* Digits without leading zeros: 0 to 65535. */
static bool is_port(const char *text, size_t length) {
    unsigned number = 0;
    if (length == 0 || length > 5 || (length > 1 && *text == '0')) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    return number <= 65535;
}

static nb_proxy_outcome_t line(const char *bytes, size_t length, nb_proxy_t *proxy, const char **reason) {
    const char *feed = memchr(bytes, '\n', length < NB_PROXY_LINE ? length : NB_PROXY_LINE), *text;
    uint8_t own[16];
    size_t size;
    if (!feed)
        return length < NB_PROXY_LINE ? NB_PROXY_MORE : invalid(reason, "its PROXY line has no end within 107 bytes");
    if (feed[-1] != '\r') return invalid(reason, "its PROXY line does not end with CRLF");
    words_t words = {bytes + WORD, feed - 1};
    bool more = next_word(&words, &text, &size, false);
    if (size == 7 && memcmp(text, "UNKNOWN", 7) == 0) { /* the rest of the line is ignored */
        proxy->length = (size_t)(feed + 1 - bytes);
        return NB_PROXY_COMPLETE;
    }
    if (!more || size != 4 || memcmp(text, "TCP", 3) != 0 || (text[3] != '4' && text[3] != '6'))
        return invalid(reason, "its PROXY line has neither TCP4, TCP6 nor UNKNOWN");
    int family = text[3] == '4' ? AF_INET : AF_INET6;
    if (!next_word(&words, &text, &size, false) || !nb_address_read(proxy->address, family, text, size) ||
        !next_word(&words, &text, &size, false) || !nb_address_read(own, family, text, size))
        return invalid(reason, "its PROXY line has an address that is none");
    if (!next_word(&words, &text, &size, false) || !is_port(text, size) ||
        !next_word(&words, &text, &size, true) || !is_port(text, size))
        return invalid(reason, "its PROXY line has a port that is none");
    proxy->length = (size_t)(feed + 1 - bytes);
    proxy->has_address = true;
    return NB_PROXY_COMPLETE;
}

/* ---- version 2 ---- */
static nb_proxy_outcome_t block(const char *bytes, size_t length, nb_proxy_t *proxy, const char **reason) {
    static const size_t sizes[] = {0, 2 * 4 + 2 * 2, 2 * 16 + 2 * 2, 2 * 108}; /* of two addresses, with their ports */
    const uint8_t *head = (const uint8_t *)bytes;
    if (length < BLOCK_AT) return NB_PROXY_MORE;
    unsigned version = head[12] >> 4, command = head[12] & 15u, family = head[13] >> 4, transport = head[13] & 15u;
    size_t size = (size_t)head[14] << 8 | head[15];
    if (version != 2) return invalid(reason, "its PROXY header has a version other than 2");
    if (command > 1) return invalid(reason, "its PROXY header has an unknown command");
    if (size > NB_PROXY_BLOCK) return invalid(reason, "its PROXY header is too long");
    bool local = command == 0; /* a health check: the rest of the header is ignored */
    if (!local && (family > 3 || transport > 2))
        return invalid(reason, "its PROXY header has an unknown kind of address");
    bool known = !local && family && transport;
    if (known && size < sizes[family]) return invalid(reason, "its PROXY header is too short for its addresses");
    if (length < BLOCK_AT + size) return NB_PROXY_MORE;
    proxy->length = BLOCK_AT + size;
    proxy->has_address = known;
    if (known && family == 1) nb_address_map(proxy->address, bytes + BLOCK_AT);
    else if (known) memcpy(proxy->address, family == 2 ? head + BLOCK_AT : nb_loopback, 16);
    return NB_PROXY_COMPLETE;
}

nb_proxy_outcome_t nb_proxy_parse(const char *bytes, size_t length, nb_proxy_t *proxy, const char **reason) {
    *proxy = (nb_proxy_t){.length = 0};
    if (begins(bytes, length, word, WORD)) return line(bytes, length, proxy, reason);
    if (begins(bytes, length, signature, SIGNATURE)) return block(bytes, length, proxy, reason);
    return invalid(reason, "it does not begin with a PROXY header");
}
