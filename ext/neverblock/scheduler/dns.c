/*
 * Name resolution: the system's getaddrinfo and getnameinfo (hosts, nsswitch, DNS), on native threads of their own.
 * lib/neverblock/scheduler/resolver.rb makes Ruby's objects of the results.
 */
#include "scheduler.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct {
    nb_job_t job;
    char *host, *service;
    struct addrinfo hints, *found;
    struct sockaddr_storage address;
    socklen_t address_length;
    int flags, error, system_error;
    char host_name[NI_MAXHOST], service_name[NI_MAXSERV];
} lookup_t;

static void release(nb_job_t *job) {
    lookup_t *lookup = (lookup_t *)job;
    if (lookup->found) freeaddrinfo(lookup->found);
    free(lookup->host);
    free(lookup->service);
    free(lookup);
}

static void perform_getaddrinfo(nb_job_t *job) {
    lookup_t *lookup = (lookup_t *)job;
    lookup->error = getaddrinfo(lookup->host, lookup->service, &lookup->hints, &lookup->found);
    lookup->system_error = errno;
    if (lookup->error) lookup->found = NULL;
}

static void perform_getnameinfo(nb_job_t *job) {
    lookup_t *lookup = (lookup_t *)job;
    lookup->error = getnameinfo((struct sockaddr *)&lookup->address, lookup->address_length,
                                lookup->host_name, sizeof lookup->host_name,
                                lookup->service_name, sizeof lookup->service_name, lookup->flags);
    lookup->system_error = errno;
}

static lookup_t *new_job(void (*perform)(nb_job_t *)) {
    lookup_t *lookup = calloc(1, sizeof *lookup);
    if (!lookup) rb_memerror();
    lookup->job.perform = perform;
    lookup->job.release = release;
    return lookup;
}

static char *copy(VALUE string) {
    char *text = NIL_P(string) ? NULL : strdup(StringValueCStr(string));
    if (!text && !NIL_P(string)) rb_memerror();
    return text;
}

/* The error as Ruby's socket library raises it; its error_code is a variable that only C can set. */
static void fail(int error, int system_error, const char *call) {
    if (error == EAI_SYSTEM) rb_syserr_fail(system_error, call);
    VALUE message = rb_sprintf("%s: %s", call, gai_strerror(error));
    VALUE exception = rb_exc_new_str(rb_path2class("Socket::ResolutionError"), message);
    rb_ivar_set(exception, rb_intern("error_code"), INT2NUM(error));
    rb_exc_raise(exception);
}

static VALUE collect(VALUE job) {
    VALUE found = rb_ary_new();
    for (struct addrinfo *at = ((lookup_t *)job)->found; at; at = at->ai_next) {
        VALUE address = rb_str_new((char *)at->ai_addr, at->ai_addrlen);
        VALUE name = at->ai_canonname ? rb_str_new_cstr(at->ai_canonname) : Qnil;
        VALUE parts[] = {INT2NUM(at->ai_family), address, INT2NUM(at->ai_socktype), INT2NUM(at->ai_protocol), name};
        rb_ary_push(found, rb_ary_new_from_values(5, parts));
    }
    return found;
}

/* call-seq: getaddrinfo(host, service, family, socktype, protocol, flags)
 *             -> [[family, sockaddr, socktype, protocol, canonname], ...] */
static VALUE getaddrinfo_m(VALUE self, VALUE host, VALUE service, VALUE family, VALUE socktype, VALUE protocol,
                           VALUE flags) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!NIL_P(host)) StringValueCStr(host);
    if (!NIL_P(service)) StringValueCStr(service);
    lookup_t *lookup = new_job(perform_getaddrinfo);
    lookup->host = copy(host);
    lookup->service = copy(service);
    lookup->hints = (struct addrinfo){.ai_family = NUM2INT(family), .ai_socktype = NUM2INT(socktype),
                                    .ai_protocol = NUM2INT(protocol), .ai_flags = NUM2INT(flags)};
    nb_job_await(&scheduler->engine, NB_POOL_NAMES, NB_LEAVE_AT_ONCE, &lookup->job, host);
    int error = lookup->error, system_error = lookup->system_error, state = 0;
    VALUE found = error ? Qnil : rb_protect(collect, (VALUE)lookup, &state);
    release(&lookup->job);
    if (state) rb_jump_tag(state);
    if (error) fail(error, system_error, "getaddrinfo");
    return found;
}

/* call-seq: getnameinfo(sockaddr, flags) -> [host, service] */
static VALUE getnameinfo_m(VALUE self, VALUE address, VALUE flags) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    StringValue(address);
    int wanted = NUM2INT(flags);
    lookup_t *lookup = new_job(perform_getnameinfo);
    if ((size_t)RSTRING_LEN(address) > sizeof lookup->address) {
        release(&lookup->job);
        rb_raise(rb_eArgError, "getnameinfo: a socket address of %ld bytes is too long", RSTRING_LEN(address));
    }
    memcpy(&lookup->address, RSTRING_PTR(address), RSTRING_LEN(address));
    lookup->address_length = (socklen_t)RSTRING_LEN(address);
    lookup->flags = wanted;
    nb_job_await(&scheduler->engine, NB_POOL_NAMES, NB_LEAVE_AT_ONCE, &lookup->job, address);
    int error = lookup->error, system_error = lookup->system_error;
    char host[NI_MAXHOST], service[NI_MAXSERV];
    memcpy(host, lookup->host_name, sizeof host);
    memcpy(service, lookup->service_name, sizeof service);
    release(&lookup->job);
    if (error) fail(error, system_error, "getnameinfo");
    return rb_assoc_new(rb_str_new_cstr(host), rb_str_new_cstr(service));
}

void nb_init_dns(void) {
    rb_define_method(nb_cScheduler, "getaddrinfo", getaddrinfo_m, 6);
    rb_define_method(nb_cScheduler, "getnameinfo", getnameinfo_m, 2);
}
