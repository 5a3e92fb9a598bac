/*
 * IP addresses as 16 bytes, IPv4 as mapped (RFC 4291 §2.5.5.2): one form for all comparisons.
 */
#ifndef NB_HTTP_ADDRESS_H
#define NB_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_ADDRESS_TEXT 46 /* bytes of the longest text, with its end: INET6_ADDRSTRLEN */

/* The address of a peer of a unix socket. */
extern const uint8_t nb_loopback[16];

/* four: the bytes of an IPv4 address. */
void nb_address_map(uint8_t address[16], const void *four);

/* family: AF_INET or AF_INET6. False if the text is anything but an address of that family. */
bool nb_address_read(uint8_t address[16], int family, const char *text, size_t length);

void nb_address_text(char text[NB_ADDRESS_TEXT], const uint8_t address[16]);

#endif
