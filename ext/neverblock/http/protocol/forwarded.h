/*
 * The client's address as proxies tell it: X-Forwarded-For, or Forwarded (RFC 7239). Each proxy appends to the list
 * that it received. The list is read from the right, as long as the address that was read is a trusted proxy's.
 *
 *     nb_client_t client;
 *     if (nb_forwarded_for(&trusted, text, length, &client)) ...   // client.address, from the element at client.at
 */
#ifndef NB_HTTP_FORWARDED_H
#define NB_HTTP_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { uint8_t address[16]; uint8_t bits; } nb_network_t; /* IPv4 as mapped: 96 bits more */

typedef struct { nb_network_t *networks; size_t count; } nb_trusted_t;

typedef enum { NB_SCHEME_NONE, NB_SCHEME_HTTP, NB_SCHEME_HTTPS } nb_scheme_t;

typedef struct {
    uint8_t address[16];
    size_t at, length;        /* of the element in the list that tells it */
    nb_scheme_t scheme;       /* that Forwarded's element tells */
} nb_client_t;

/* Kinds of fields that only a proxy can know the truth of. */
enum { NB_FORWARDED = 1, NB_X_FORWARDED = 2, NB_OTHERS_OF_PROXIES = 4, NB_ALL_OF_PROXIES = 7 };

/* The kind of a field's name, in any case, '_' like '-'; 0: none of these. */
unsigned nb_forwarded_kind(const char *name, size_t length);

bool nb_trusts(const nb_trusted_t *, const uint8_t address[16]);

/* The client is the right-most address that is not trusted, or the left-most one of those that are. False: there is
 * none to the right of what can't be read. */
bool nb_forwarded_for(const nb_trusted_t *, const char *list, size_t length, nb_client_t *);
bool nb_forwarded(const nb_trusted_t *, const char *list, size_t length, nb_client_t *);

/* The right-most scheme of a list. */
nb_scheme_t nb_forwarded_proto(const char *list, size_t length);

#endif
