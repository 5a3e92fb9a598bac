/*
 * The field names that browsers, proxies and programs send day by day, each with its key in Rack's env: for these a
 * request needs no String for a key. A name is found by its length, first and last letter but one, in one step.
 *
 *     nb_known_names[nb_known_name(name, length)].key   // "HTTP_ACCEPT"
 *
 * To add one: a line below, with the name's first letter and its last but one; the compiler refuses (-Woverride-init)
 * two names on one slot, then change NB_KNOWN_SLOT's factors. Those with a meaning for framing come first: fields.c.
 */
#ifndef NB_HTTP_HEADER_NAMES_H
#define NB_HTTP_HEADER_NAMES_H

#include <stdint.h>

#define NB_EACH_KNOWN_NAME(X) \
    X(HOST, 'h', 's', "host", "HTTP_HOST") \
    X(CONTENT_LENGTH, 'c', 't', "content-length", "CONTENT_LENGTH") \
    X(TRANSFER_ENCODING, 't', 'n', "transfer-encoding", "HTTP_TRANSFER_ENCODING") \
    X(CONNECTION, 'c', 'o', "connection", "HTTP_CONNECTION") \
    X(EXPECT, 'e', 'c', "expect", "HTTP_EXPECT") \
    X(UPGRADE, 'u', 'd', "upgrade", "HTTP_UPGRADE") \
    X(CONTENT_TYPE, 'c', 'p', "content-type", "CONTENT_TYPE") \
    X(ACCEPT, 'a', 'p', "accept", "HTTP_ACCEPT") \
    X(ACCEPT_CHARSET, 'a', 'e', "accept-charset", "HTTP_ACCEPT_CHARSET") \
    X(ACCEPT_ENCODING, 'a', 'n', "accept-encoding", "HTTP_ACCEPT_ENCODING") \
    X(ACCEPT_LANGUAGE, 'a', 'g', "accept-language", "HTTP_ACCEPT_LANGUAGE") \
    X(ACCESS_CONTROL_REQUEST_HEADERS, 'a', 'r', "access-control-request-headers", \
      "HTTP_ACCESS_CONTROL_REQUEST_HEADERS") \
    X(ACCESS_CONTROL_REQUEST_METHOD, 'a', 'o', "access-control-request-method", "HTTP_ACCESS_CONTROL_REQUEST_METHOD") \
    X(AUTHORIZATION, 'a', 'o', "authorization", "HTTP_AUTHORIZATION") \
    X(CACHE_CONTROL, 'c', 'o', "cache-control", "HTTP_CACHE_CONTROL") \
    X(CF_CONNECTING_IP, 'c', 'i', "cf-connecting-ip", "HTTP_CF_CONNECTING_IP") \
    X(CF_RAY, 'c', 'a', "cf-ray", "HTTP_CF_RAY") \
    X(CONTENT_ENCODING, 'c', 'n', "content-encoding", "HTTP_CONTENT_ENCODING") \
    X(CONTENT_LANGUAGE, 'c', 'g', "content-language", "HTTP_CONTENT_LANGUAGE") \
    X(CONTENT_RANGE, 'c', 'g', "content-range", "HTTP_CONTENT_RANGE") \
    X(COOKIE, 'c', 'i', "cookie", "HTTP_COOKIE") \
    X(DATE, 'd', 't', "date", "HTTP_DATE") \
    X(DNT, 'd', 'n', "dnt", "HTTP_DNT") \
    X(FORWARDED, 'f', 'e', "forwarded", "HTTP_FORWARDED") \
    X(FROM, 'f', 'o', "from", "HTTP_FROM") \
    X(HTTP2_SETTINGS, 'h', 'g', "http2-settings", "HTTP_HTTP2_SETTINGS") \
    X(IDEMPOTENCY_KEY, 'i', 'e', "idempotency-key", "HTTP_IDEMPOTENCY_KEY") \
    X(IF_MATCH, 'i', 'c', "if-match", "HTTP_IF_MATCH") \
    X(IF_MODIFIED_SINCE, 'i', 'c', "if-modified-since", "HTTP_IF_MODIFIED_SINCE") \
    X(IF_NONE_MATCH, 'i', 'c', "if-none-match", "HTTP_IF_NONE_MATCH") \
    X(IF_RANGE, 'i', 'g', "if-range", "HTTP_IF_RANGE") \
    X(IF_UNMODIFIED_SINCE, 'i', 'c', "if-unmodified-since", "HTTP_IF_UNMODIFIED_SINCE") \
    X(KEEP_ALIVE, 'k', 'v', "keep-alive", "HTTP_KEEP_ALIVE") \
    X(MAX_FORWARDS, 'm', 'd', "max-forwards", "HTTP_MAX_FORWARDS") \
    X(ORIGIN, 'o', 'i', "origin", "HTTP_ORIGIN") \
    X(PRAGMA, 'p', 'm', "pragma", "HTTP_PRAGMA") \
    X(PRIORITY, 'p', 't', "priority", "HTTP_PRIORITY") \
    X(PROXY, 'p', 'x', "proxy", "HTTP_PROXY") \
    X(PROXY_AUTHORIZATION, 'p', 'o', "proxy-authorization", "HTTP_PROXY_AUTHORIZATION") \
    X(PROXY_CONNECTION, 'p', 'o', "proxy-connection", "HTTP_PROXY_CONNECTION") \
    X(RANGE, 'r', 'g', "range", "HTTP_RANGE") \
    X(REFERER, 'r', 'e', "referer", "HTTP_REFERER") \
    X(SAVE_DATA, 's', 't', "save-data", "HTTP_SAVE_DATA") \
    X(SEC_CH_UA, 's', 'u', "sec-ch-ua", "HTTP_SEC_CH_UA") \
    X(SEC_CH_UA_MOBILE, 's', 'l', "sec-ch-ua-mobile", "HTTP_SEC_CH_UA_MOBILE") \
    X(SEC_CH_UA_PLATFORM, 's', 'r', "sec-ch-ua-platform", "HTTP_SEC_CH_UA_PLATFORM") \
    X(SEC_FETCH_DEST, 's', 's', "sec-fetch-dest", "HTTP_SEC_FETCH_DEST") \
    X(SEC_FETCH_MODE, 's', 'd', "sec-fetch-mode", "HTTP_SEC_FETCH_MODE") \
    X(SEC_FETCH_SITE, 's', 't', "sec-fetch-site", "HTTP_SEC_FETCH_SITE") \
    X(SEC_FETCH_USER, 's', 'e', "sec-fetch-user", "HTTP_SEC_FETCH_USER") \
    X(SEC_GPC, 's', 'p', "sec-gpc", "HTTP_SEC_GPC") \
    X(SEC_WEBSOCKET_EXTENSIONS, 's', 'n', "sec-websocket-extensions", "HTTP_SEC_WEBSOCKET_EXTENSIONS") \
    X(SEC_WEBSOCKET_KEY, 's', 'e', "sec-websocket-key", "HTTP_SEC_WEBSOCKET_KEY") \
    X(SEC_WEBSOCKET_PROTOCOL, 's', 'o', "sec-websocket-protocol", "HTTP_SEC_WEBSOCKET_PROTOCOL") \
    X(SEC_WEBSOCKET_VERSION, 's', 'o', "sec-websocket-version", "HTTP_SEC_WEBSOCKET_VERSION") \
    X(TE, 't', 't', "te", "HTTP_TE") \
    X(TRACEPARENT, 't', 'n', "traceparent", "HTTP_TRACEPARENT") \
    X(TRACESTATE, 't', 't', "tracestate", "HTTP_TRACESTATE") \
    X(TRAILER, 't', 'e', "trailer", "HTTP_TRAILER") \
    X(TURBO_FRAME, 't', 'm', "turbo-frame", "HTTP_TURBO_FRAME") \
    X(UPGRADE_INSECURE_REQUESTS, 'u', 't', "upgrade-insecure-requests", "HTTP_UPGRADE_INSECURE_REQUESTS") \
    X(USER_AGENT, 'u', 'n', "user-agent", "HTTP_USER_AGENT") \
    X(VERSION, 'v', 'o', "version", "HTTP_VERSION") \
    X(VIA, 'v', 'i', "via", "HTTP_VIA") \
    X(X_AMZN_TRACE_ID, 'x', 'i', "x-amzn-trace-id", "HTTP_X_AMZN_TRACE_ID") \
    X(X_API_KEY, 'x', 'e', "x-api-key", "HTTP_X_API_KEY") \
    X(X_CSRF_TOKEN, 'x', 'e', "x-csrf-token", "HTTP_X_CSRF_TOKEN") \
    X(X_FORWARDED_FOR, 'x', 'o', "x-forwarded-for", "HTTP_X_FORWARDED_FOR") \
    X(X_FORWARDED_HOST, 'x', 's', "x-forwarded-host", "HTTP_X_FORWARDED_HOST") \
    X(X_FORWARDED_PORT, 'x', 'r', "x-forwarded-port", "HTTP_X_FORWARDED_PORT") \
    X(X_FORWARDED_PROTO, 'x', 't', "x-forwarded-proto", "HTTP_X_FORWARDED_PROTO") \
    X(X_FORWARDED_SCHEME, 'x', 'm', "x-forwarded-scheme", "HTTP_X_FORWARDED_SCHEME") \
    X(X_FORWARDED_SSL, 'x', 's', "x-forwarded-ssl", "HTTP_X_FORWARDED_SSL") \
    X(X_HTTP_METHOD_OVERRIDE, 'x', 'd', "x-http-method-override", "HTTP_X_HTTP_METHOD_OVERRIDE") \
    X(X_REAL_IP, 'x', 'i', "x-real-ip", "HTTP_X_REAL_IP") \
    X(X_REQUEST_ID, 'x', 'i', "x-request-id", "HTTP_X_REQUEST_ID") \
    X(X_REQUEST_START, 'x', 'r', "x-request-start", "HTTP_X_REQUEST_START") \
    X(X_REQUESTED_WITH, 'x', 't', "x-requested-with", "HTTP_X_REQUESTED_WITH") \
    X(X_TURBO_REQUEST_ID, 'x', 'i', "x-turbo-request-id", "HTTP_X_TURBO_REQUEST_ID")

enum {
    NB_NAME_UNKNOWN,
#define X(id, first, late, name, key) NB_NAME_##id,
    NB_EACH_KNOWN_NAME(X)
#undef X
    NB_KNOWN_NAMES /* how many there are, with the unknown one */
};

typedef struct {
    const char *name, *key;
    uint8_t length, key_length;
} nb_known_name_t;

extern const nb_known_name_t nb_known_names[NB_KNOWN_NAMES]; /* 0: an empty name */

/* The index of a name (bytes of tokens, in any case), NB_NAME_UNKNOWN if it is none of ours. */
uint8_t nb_known_name(const uint8_t *name, uint32_t length);

#endif
