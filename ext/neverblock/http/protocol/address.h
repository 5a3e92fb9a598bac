/*
 * Addresses of the Internet as 16 bytes, IPv4 as mapped (RFC 4291 §2.5.5.2): one form for all that is compared.
 */
#ifndef NB_HTTP_ADDRESS_H
#define NB_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whoever comes through a unix socket is on this machine. */
extern const uint8_t nb_loopback[16];

/* four: the bytes of an IPv4 address. */
void nb_address_map(uint8_t address[16], const void *four);

/* family: AF_INET or AF_INET6. Whether the text is such an address, and nothing else. */
bool nb_address_read(uint8_t address[16], int family, const char *text, size_t length);

#endif
