/* See address.h. */
#include "address.h"
#include <arpa/inet.h>
#include <string.h>

const uint8_t nb_loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};

void nb_address_map(uint8_t address[16], const void *four) {
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    memcpy(address + 12, four, 4);
}

bool nb_address_read(uint8_t address[16], int family, const char *text, size_t length) {
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    if (strlen(copy) != length || inet_pton(family, copy, bytes) != 1) return false;
    if (family == AF_INET) nb_address_map(address, bytes);
    else memcpy(address, bytes, 16);
    return true;
}

void nb_address_text(char text[NB_ADDRESS_TEXT], const uint8_t address[16]) {
    bool four = memcmp(address, nb_loopback, 12) == 0; /* IPv4, as mapped */
    inet_ntop(four ? AF_INET : AF_INET6, address + (four ? 12 : 0), text, NB_ADDRESS_TEXT);
}
