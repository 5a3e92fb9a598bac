/*
 * The PROXY protocol, versions 1 (a line of text) and 2 (binary): a balancer that forwards bytes names
 * the client ahead of them. Like the head's parser it knows no Ruby, keeps no pointer and allocates nothing.
 *
 *     nb_proxy_t proxy;
 *     switch (nb_proxy_parse(bytes, length, &proxy, &reason)) {
 *     case NB_PROXY_MORE:       // call again with the same bytes and those that came
 *     case NB_PROXY_COMPLETE:   // the request begins at bytes + proxy.length
 *     case NB_PROXY_INVALID:    // reason: a short English phrase, a constant
 *     }
 *
 * The outcome depends on the bytes alone, never on how they were cut into pieces.
 */
#ifndef NB_HTTP_PROXY_H
#define NB_HTTP_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_PROXY_LINE 107      /* bytes of version 1, with its end: as the protocol has it */
#define NB_PROXY_BLOCK 8192    /* … of version 2's addresses and what comes behind them, which may be certificates */

typedef enum { NB_PROXY_MORE, NB_PROXY_COMPLETE, NB_PROXY_INVALID } nb_proxy_outcome_t;

typedef struct {
    size_t length;
    bool has_address;     /* false: the balancer speaks for itself, as in health checks, or does not know */
    uint8_t address[16];  /* the client's; IPv4 as mapped; of a unix socket the loopback address */
} nb_proxy_t;

nb_proxy_outcome_t nb_proxy_parse(const char *bytes, size_t length, nb_proxy_t *, const char **reason);

#endif
