/*
 * The table of header_names.h and the look into it.
 */
#include "header_names.h"
#include "bytes.h"

#define NB_KNOWN_SLOTS 512
#define NB_KNOWN_SLOT(length, first, late) (((length) * 14 + (first) * 39 + (late)) % NB_KNOWN_SLOTS)

const nb_known_name_t nb_known_names[NB_KNOWN_NAMES] = {
    {"", "", 0, 0},
#define X(id, first, late, name, key) {name, key, sizeof name - 1, sizeof key - 1},
    NB_EACH_KNOWN_NAME(X)
#undef X
};

static const uint8_t slots[NB_KNOWN_SLOTS] = {
#define X(id, first, late, name, key) [NB_KNOWN_SLOT(sizeof name - 1, first, late)] = NB_NAME_##id,
    NB_EACH_KNOWN_NAME(X)
#undef X
};

uint8_t nb_known_name(const uint8_t *name, uint32_t length) {
    if (length < 2) return NB_NAME_UNKNOWN;
    uint8_t index = slots[NB_KNOWN_SLOT(length, name[0] | 0x20u, name[length - 2] | 0x20u)];
    const nb_known_name_t *known = &nb_known_names[index];
    return known->length == length && nb_same_word(name, known->name, length) ? index : NB_NAME_UNKNOWN;
}
