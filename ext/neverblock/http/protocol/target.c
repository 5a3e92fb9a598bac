/*
 * The request target, whose form depends on the method (RFC 9112 §3.2), and authorities: that of an absolute-form
 * target and the Host field's (RFC 9110 §7.2, RFC 3986 §3.2).
 */
#include "head.h"
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static const uint8_t *text(const nb_reader_t *in, nb_span_t span) { return in->base + span.at; }

/* ---- authorities ---- */

/* unreserved, sub-delims and percent-escapes; the end of it. */
static const uint8_t *registered_name(const uint8_t *at, const uint8_t *end) {
    for (; at < end; at++) {
        if (nb_is(*at, NB_HOST)) continue;
        if (*at != '%' || end - at < 3 || !nb_is(at[1], NB_HEX) || !nb_is(at[2], NB_HEX)) break;
        at += 2;
    }
    return at;
}

/* "[" IPv6address "]"; the byte after it, or NULL. No zones (RFC 9844: never on the wire) and no IPvFuture, of
 * which none is defined. */
static const uint8_t *ipv6_literal(const uint8_t *at, const uint8_t *end) {
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const uint8_t *close = memchr(at, ']', (size_t)(end - at));
    size_t length = close ? (size_t)(close - at - 1) : 0;
    if (length == 0 || length >= sizeof address) return NULL;
    memcpy(address, at + 1, length);
    address[length] = 0;
    return inet_pton(AF_INET6, address, &parsed) == 1 ? close + 1 : NULL;
}

bool nb_authority_read(const nb_reader_t *in, nb_span_t authority, nb_span_t *name, int32_t *port) {
    const uint8_t *start = text(in, authority), *end = start + authority.length, *at;
    *port = -1;
    if (start == end) return false;
    at = *start == '[' ? ipv6_literal(start, end) : registered_name(start, end);
    if (!at || at == start) return false;
    *name = nb_span(in, start, at);
    if (at == end) return true;
    if (*at++ != ':') return false;
    for (; at < end; at++) { /* "name:" is allowed, and has no port */
        if (!nb_is(*at, NB_DIGIT)) return false;
        *port = (*port < 0 ? 0 : *port * 10) + (*at - '0');
        if (*port > 65535) return false;
    }
    return true;
}

/* ---- targets ---- */

/* The span of an http or https target's scheme with "://", or 0. */
static uint32_t scheme_length(const uint8_t *target, uint32_t length) {
    if (length > 7 && nb_same_word(target, "http", 4) && memcmp(target + 4, "://", 3) == 0) return 7;
    if (length > 8 && nb_same_word(target, "https", 5) && memcmp(target + 5, "://", 3) == 0) return 8;
    return 0;
}

static void split_query(const nb_reader_t *in, const uint8_t *path, const uint8_t *end) {
    const uint8_t *mark = memchr(path, '?', (size_t)(end - path));
    in->head->path = nb_span(in, path, mark ? mark : end);
    in->head->query = mark ? nb_span(in, mark + 1, end) : (nb_span_t){0, 0};
}

static int absolute_form(const nb_reader_t *in, const uint8_t *start, const uint8_t *end) {
    nb_head_t *head = in->head;
    nb_span_t name;
    int32_t port;
    uint32_t scheme = scheme_length(start, head->target.length);
    if (scheme == 0) return nb_refuse(in, 400, "a request target that is neither a path nor an http URI");
    const uint8_t *authority = start + scheme, *at = authority;
    while (at < end && *at != '/' && *at != '?') at++;
    head->form = NB_FORM_ABSOLUTE;
    head->authority = nb_span(in, authority, at);
    if (!nb_authority_read(in, head->authority, &name, &port)) /* userinfo too: RFC 9110 §4.2.4 */
        return nb_refuse(in, 400, "a request target with an invalid host");
    split_query(in, at, end);
    return 0;
}

int nb_target_read(const nb_reader_t *in) {
    nb_head_t *head = in->head;
    const uint8_t *start = text(in, head->target), *end = start + head->target.length;
    nb_span_t name;
    int32_t port;
    if (head->method_id == NB_METHOD_CONNECT) { /* §3.2.3: with a port. This server is not a proxy. */
        head->form = NB_FORM_AUTHORITY;
        if (!nb_authority_read(in, head->target, &name, &port) || port < 0)
            return nb_refuse(in, 400, "CONNECT to something other than host:port");
        return nb_refuse(in, 501, "CONNECT");
    }
    if (*start == '/') {
        head->form = NB_FORM_ORIGIN;
        split_query(in, start, end);
        return 0;
    }
    if (*start == '*' && head->target.length == 1) {
        if (head->method_id != NB_METHOD_OPTIONS) return nb_refuse(in, 400, "the target * without OPTIONS");
        head->form = NB_FORM_ASTERISK;
        head->path = head->target;
        return 0;
    }
    return absolute_form(in, start, end);
}

/* RFC 3986 §6.2.2 and §6.2.3: case does not count, nor does the scheme's default port. RFC 9112 §3.2.2 would have us
 * ignore the Host; but what one server routes by the one and the next by the other is how caches are poisoned. */
bool nb_authority_agrees(const nb_reader_t *in, nb_span_t host) {
    const nb_head_t *head = in->head;
    int32_t usual = scheme_length(text(in, head->target), head->target.length) == 8 ? 443 : 80;
    nb_span_t a, b;
    int32_t a_port, b_port;
    if (!nb_authority_read(in, head->authority, &a, &a_port)) return false;
    if (!nb_authority_read(in, host, &b, &b_port)) return false;
    if ((a_port < 0 ? usual : a_port) != (b_port < 0 ? usual : b_port)) return false;
    return a.length == b.length && strncasecmp((const char *)text(in, a), (const char *)text(in, b), a.length) == 0;
}
