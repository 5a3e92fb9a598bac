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

void nb_rate_begin(nb_rate_t *rate, int fd, uint64_t sent, uint64_t now) {
    if (!rate->measured) rate->before = taken(fd, sent);
    rate->measured = true;
    rate->since = now;
}

void nb_rate_end(nb_rate_t *rate, uint64_t now) {
    if (rate->since) rate->waited += now - rate->since;
    rate->since = 0;
}

bool nb_rate_is_slow(const nb_rate_t *rate, const nb_transport_settings_t *settings, int fd, uint64_t sent,
                     uint64_t now) {
    if (!settings->min_answer_rate || !rate->since) return false;
    uint64_t waited = rate->waited + now - rate->since;
    if (waited < settings->min_answer_rate_after) return false;
    return (double)(taken(fd, sent) - rate->before) < (double)settings->min_answer_rate * (double)waited / 1e9;
}
