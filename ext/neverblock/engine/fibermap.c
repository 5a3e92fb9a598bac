/*
 * fiber -> the wait it is parked in, for unblock(blocker, fiber). Open addressing with linear probing and
 * backward-shift deletion: no tombstones, and nothing is allocated once it has grown to the high-water mark.
 * Fibers in it are pinned (nb_engine_mark), so that their addresses may serve as keys.
 */
#include "internal.h"

static size_t home_slot(const nb_fibermap_t *map, VALUE fiber) {
    return (size_t)(((uint64_t)fiber >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (map->capacity - 1);
}

static void insert(nb_fibermap_t *map, nb_wait_t *wait) {
    size_t slot = home_slot(map, wait->fiber);
    while (map->slots[slot]) slot = (slot + 1) & (map->capacity - 1);
    map->slots[slot] = wait;
}

void nb_fibermap_put(nb_fibermap_t *map, nb_wait_t *wait) {
    if ((map->count + 1) * 2 > map->capacity) {
        nb_fibermap_t grown = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
        grown.slots = ZALLOC_N(nb_wait_t *, grown.capacity);
        for (size_t i = 0; i < map->capacity; i++) if (map->slots[i]) insert(&grown, map->slots[i]);
        xfree(map->slots);
        *map = grown;
    }
    insert(map, wait);
    map->count++;
}

nb_wait_t *nb_fibermap_get(nb_fibermap_t *map, VALUE fiber) {
    if (map->count == 0) return NULL;
    for (size_t slot = home_slot(map, fiber); map->slots[slot]; slot = (slot + 1) & (map->capacity - 1))
        if (map->slots[slot]->fiber == fiber) return map->slots[slot];
    return NULL;
}

void nb_fibermap_remove(nb_fibermap_t *map, nb_wait_t *wait) {
    if (map->count == 0) return;
    size_t mask = map->capacity - 1, slot = home_slot(map, wait->fiber);
    while (map->slots[slot] != wait) {
        if (!map->slots[slot]) return;
        slot = (slot + 1) & mask;
    }
    map->count--;
    for (size_t next = (slot + 1) & mask; map->slots[next]; next = (next + 1) & mask) {
        size_t ideal = home_slot(map, map->slots[next]->fiber);
        if (((next - ideal) & mask) >= ((next - slot) & mask)) { /* it may move back without passing its home */
            map->slots[slot] = map->slots[next];
            slot = next;
        }
    }
    map->slots[slot] = NULL;
}
