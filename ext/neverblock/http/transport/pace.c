/*
 * How fast a client takes a response (min_answer_rate). Only time counts in which the server waits for the client, and
 * only bytes that the client's side has confirmed: those in the kernel's buffer have not been taken.
 */
#include "transport.h"
#include <sys/ioctl.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

/* sent: bytes that the kernel took. */
static int64_t taken(int fd, uint64_t sent) {
    int unsent = 0;
#ifdef SIOCOUTQ
    if (ioctl(fd, SIOCOUTQ, &unsent) < 0) unsent = 0;
#endif
    return (int64_t)sent - unsent;
}

void nb_pace_begin(nb_pace_t *pace, int fd, uint64_t sent, uint64_t now) {
    if (!pace->measured) pace->before = taken(fd, sent);
    pace->measured = true;
    pace->since = now;
}

void nb_pace_end(nb_pace_t *pace, uint64_t now) {
    if (pace->since) pace->waited += now - pace->since;
    pace->since = 0;
}

bool nb_pace_is_slow(const nb_pace_t *pace, const nb_transport_settings_t *settings, int fd, uint64_t sent,
                     uint64_t now) {
    if (!settings->min_answer_rate || !pace->since) return false;
    uint64_t waited = pace->waited + now - pace->since;
    if (waited < settings->min_answer_rate_after) return false;
    return (double)(taken(fd, sent) - pace->before) < (double)settings->min_answer_rate * (double)waited / 1e9;
}
