/* See forwarded.h. */
#include "forwarded.h"
#include "address.h"
#include "bytes.h"
#include <string.h>
#include <sys/socket.h>

typedef struct { const char *from, *to; } part_t;

static size_t size_of(part_t part) { return (size_t)(part.to - part.from); }

static part_t trimmed(part_t part) {
    while (part.from < part.to && nb_is_blank((uint8_t)*part.from)) part.from++;
    while (part.to > part.from && nb_is_blank((uint8_t)part.to[-1])) part.to--;
    return part;
}

static bool is_word(part_t part, const char *word) {
    size_t length = strlen(word);
    return size_of(part) == length && nb_same_word((const uint8_t *)part.from, word, (uint32_t)length);
}

/* ---- names ---- */
unsigned nb_forwarded_kind(const char *name, size_t length) {
    static const char *const others[] = {"x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "cf-connecting-ip",
                                         "x-request-start"};
    static const char prefix[] = "x-forwarded-";
    char text[18];
    if (!strchr("xXfFcCtT", *name)) return 0;
    size_t some = length < sizeof text ? length : sizeof text - 1;
    for (size_t i = 0; i < some; i++)
        text[i] = name[i] == '_' ? '-' : (char)(name[i] | (name[i] >= 'A' && name[i] <= 'Z' ? 32 : 0));
    text[some] = 0;
    if (some >= sizeof prefix - 1 && memcmp(text, prefix, sizeof prefix - 1) == 0) return NB_X_FORWARDED;
    if (length != some) return 0;
    if (strcmp(text, "forwarded") == 0) return NB_FORWARDED;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(text, others[i]) == 0) return NB_OTHERS_OF_PROXIES;
    return 0;
}

/* ---- addresses ---- */
bool nb_trusts(const nb_trusted_t *trusted, const uint8_t address[16]) {
    for (const nb_network_t *network = trusted->networks; network < trusted->networks + trusted->count; network++) {
        unsigned whole = network->bits / 8, rest = network->bits % 8;
        if (memcmp(address, network->address, whole) != 0) continue;
        if (!rest || ((address[whole] ^ network->address[whole]) >> (8 - rest)) == 0) return true;
    }
    return false;
}

static bool is_port(part_t part) {
    if (size_of(part) == 0 || size_of(part) > 5) return false;
    for (const char *at = part.from; at < part.to; at++)
        if (!nb_is((uint8_t)*at, NB_DIGIT)) return false;
    return true;
}

/* IPv4, or IPv6 in brackets, either with a port. bare: an IPv6 address may come without brackets. */
static bool read_address(uint8_t address[16], part_t part, bool bare) {
    size_t size = size_of(part);
    if (size && *part.from == '[') {
        const char *close = memchr(part.from, ']', size);
        if (!close || !nb_address_read(address, AF_INET6, part.from + 1, (size_t)(close - part.from - 1))) return false;
        return close + 1 == part.to || (close[1] == ':' && is_port((part_t){close + 2, part.to}));
    }
    const char *colon = memchr(part.from, ':', size);
    if (!colon) return nb_address_read(address, AF_INET, part.from, size);
    if (memchr(colon + 1, ':', (size_t)(part.to - colon - 1)))
        return bare && nb_address_read(address, AF_INET6, part.from, size);
    return is_port((part_t){colon + 1, part.to}) &&
        nb_address_read(address, AF_INET, part.from, (size_t)(colon - part.from));
}

/* ---- lists, from the right ---- */
static bool is_escaped(const char *list, const char *at) {
    const char *from = at;
    while (from > list && from[-1] == '\\') from--;
    return (at - from) % 2;
}

/* The last element of what lies before end, which is set to the comma in front of it, or to NULL if there is no
 * other. Bytes that the client put to the left of the proxies' elements can't change how those are read. */
static bool last_element(const char *list, const char **end, bool quotes, part_t *part) {
    const char *from = *end;
    bool quoted = false;
    if (!from) return false;
    for (; from > list && (quoted || from[-1] != ','); from--)
        if (quotes && from[-1] == '"' && !is_escaped(list, from - 1)) quoted = !quoted;
    *part = trimmed((part_t){from, *end});
    *end = from > list ? from - 1 : NULL;
    return true;
}

/* Takes the next address to the left. Whether the one beyond it counts: this one is trusted. */
static bool went_through(const nb_trusted_t *trusted, const uint8_t address[16], const char *list, part_t part,
                         nb_client_t *client) {
    memcpy(client->address, address, 16);
    client->at = (size_t)(part.from - list);
    client->length = size_of(part);
    return nb_trusts(trusted, address);
}

/* ---- X-Forwarded-For, X-Forwarded-Proto ---- */
bool nb_forwarded_for(const nb_trusted_t *trusted, const char *list, size_t length, nb_client_t *client) {
    const char *end = list + length;
    bool found = false;
    uint8_t address[16];
    client->scheme = NB_SCHEME_NONE;
    for (part_t part; last_element(list, &end, false, &part);) {
        if (size_of(part) == 0) continue; /* RFC 9110 §5.6.1.2 */
        if (!read_address(address, part, true)) break;
        found = true;
        if (!went_through(trusted, address, list, part, client)) break;
    }
    return found;
}

/* A web socket's are those of its handshake. */
static nb_scheme_t scheme_of(part_t part) {
    if (is_word(part, "https") || is_word(part, "wss")) return NB_SCHEME_HTTPS;
    if (is_word(part, "http") || is_word(part, "ws")) return NB_SCHEME_HTTP;
    return NB_SCHEME_NONE;
}

nb_scheme_t nb_forwarded_proto(const char *list, size_t length) {
    const char *end = list + length;
    nb_scheme_t scheme = NB_SCHEME_NONE;
    for (part_t part; !scheme && last_element(list, &end, false, &part);) scheme = scheme_of(part);
    return scheme;
}

/* ---- Forwarded ---- */
/* A value, in quotes or without. Returns the place behind it, or NULL if a quote is not closed. Escapes are kept: no
 * address needs any. */
static const char *read_value(part_t element, part_t *value) {
    const char *at = element.from;
    bool quoted = at < element.to && *at == '"';
    if (quoted) at++;
    value->from = at;
    if (quoted) {
        for (; at < element.to && *at != '"'; at++)
            if (*at == '\\' && at + 1 < element.to) at++;
    } else {
        while (at < element.to && *at != ';' && !nb_is_blank((uint8_t)*at)) at++;
    }
    value->to = at;
    if (!quoted) return at;
    return at < element.to ? at + 1 : NULL;
}

/* for=…;proto=…;by=…; false: it is none, or says one of them twice. */
static bool read_element(part_t element, part_t *node, part_t *proto) {
    *node = *proto = (part_t){NULL, NULL};
    for (const char *at = element.from; at < element.to; at++) {
        part_t name = trimmed((part_t){at, element.to}), value;
        if (size_of(name) == 0) return true;
        at = name.from;
        if (*at == ';') continue;
        while (at < element.to && nb_is((uint8_t)*at, NB_TOKEN)) at++;
        name.to = at;
        if (size_of(name) == 0 || at == element.to || *at != '=') return false;
        at = read_value((part_t){at + 1, element.to}, &value);
        if (!at) return false;
        part_t *said = is_word(name, "for") ? node : is_word(name, "proto") ? proto : NULL;
        if (said && said->from) return false;
        if (said) *said = value;
        at = trimmed((part_t){at, element.to}).from;
        if (at == element.to) break;
        if (*at != ';') return false;
    }
    return true;
}

bool nb_forwarded(const nb_trusted_t *trusted, const char *list, size_t length, nb_client_t *client) {
    const char *end = list + length;
    bool found = false;
    uint8_t address[16];
    client->scheme = NB_SCHEME_NONE;
    for (part_t part, node, proto; last_element(list, &end, true, &part);) {
        if (size_of(part) == 0) continue;
        if (!read_element(part, &node, &proto) || !node.from || !read_address(address, node, false)) break;
        found = true;
        client->scheme = proto.from ? scheme_of(proto) : NB_SCHEME_NONE;
        if (!went_through(trusted, address, list, part, client)) break;
    }
    return found;
}
