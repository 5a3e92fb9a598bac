/*
 * getaddrinfo and getnameinfo of the system (hosts, nsswitch, DNS) on native threads of their own.
 * What to do with the answers is lib/neverblock/scheduler/resolver.rb's.
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
} name_job_t;

static void release(nb_job_t *job) {
    name_job_t *name = (name_job_t *)job;
    if (name->found) freeaddrinfo(name->found);
    free(name->host);
    free(name->service);
    free(name);
}

static void perform_getaddrinfo(nb_job_t *job) {
    name_job_t *name = (name_job_t *)job;
    name->error = getaddrinfo(name->host, name->service, &name->hints, &name->found);
    name->system_error = errno;
    if (name->error) name->found = NULL;
}

static void perform_getnameinfo(nb_job_t *job) {
    name_job_t *name = (name_job_t *)job;
    name->error = getnameinfo((struct sockaddr *)&name->address, name->address_length, name->host_name,
                              sizeof name->host_name, name->service_name, sizeof name->service_name, name->flags);
    name->system_error = errno;
}

static name_job_t *new_job(void (*perform)(nb_job_t *)) {
    name_job_t *name = calloc(1, sizeof *name);
    if (!name) rb_memerror();
    name->job.perform = perform;
    name->job.release = release;
    return name;
}

static char *copy(VALUE string) {
    char *text = NIL_P(string) ? NULL : strdup(StringValueCStr(string));
    if (!text && !NIL_P(string)) rb_memerror();
    return text;
}

/* The error as Ruby's socket library raises it; its error_code is a variable that only C can set. */
static void fail(int error, int system_error, const char *call) {
    if (error == EAI_SYSTEM) rb_syserr_fail(system_error, call);
    VALUE exception = rb_exc_new_str(rb_path2class("Socket::ResolutionError"), rb_sprintf("%s: %s", call, gai_strerror(error)));
    rb_ivar_set(exception, rb_intern("error_code"), INT2NUM(error));
    rb_exc_raise(exception);
}

static VALUE collect(VALUE job) {
    VALUE answers = rb_ary_new();
    for (struct addrinfo *at = ((name_job_t *)job)->found; at; at = at->ai_next)
        rb_ary_push(answers, rb_ary_new_from_args(5, INT2NUM(at->ai_family), rb_str_new((char *)at->ai_addr, at->ai_addrlen),
            INT2NUM(at->ai_socktype), INT2NUM(at->ai_protocol), at->ai_canonname ? rb_str_new_cstr(at->ai_canonname) : Qnil));
    return answers;
}

/* call-seq: getaddrinfo(host, service, family, socktype, protocol, flags) -> [[family, sockaddr, socktype, protocol, canonname], ...] */
static VALUE getaddrinfo_m(VALUE self, VALUE host, VALUE service, VALUE family, VALUE socktype, VALUE protocol, VALUE flags) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    if (!NIL_P(host)) StringValueCStr(host);
    if (!NIL_P(service)) StringValueCStr(service);
    name_job_t *name = new_job(perform_getaddrinfo);
    name->host = copy(host);
    name->service = copy(service);
    name->hints = (struct addrinfo){.ai_family = NUM2INT(family), .ai_socktype = NUM2INT(socktype),
                                    .ai_protocol = NUM2INT(protocol), .ai_flags = NUM2INT(flags)};
    nb_job_await(&scheduler->engine, NB_POOL_NAMES, NB_LEAVE_AT_ONCE, &name->job, host);
    int error = name->error, system_error = name->system_error, state = 0;
    VALUE answers = error ? Qnil : rb_protect(collect, (VALUE)name, &state);
    release(&name->job);
    if (state) rb_jump_tag(state);
    if (error) fail(error, system_error, "getaddrinfo");
    return answers;
}

/* call-seq: getnameinfo(sockaddr, flags) -> [host, service] */
static VALUE getnameinfo_m(VALUE self, VALUE address, VALUE flags) {
    nb_scheduler_t *scheduler = nb_scheduler(self);
    StringValue(address);
    int wanted = NUM2INT(flags);
    name_job_t *name = new_job(perform_getnameinfo);
    if ((size_t)RSTRING_LEN(address) > sizeof name->address) {
        release(&name->job);
        rb_raise(rb_eArgError, "getnameinfo: a socket address of %ld bytes is too long", RSTRING_LEN(address));
    }
    memcpy(&name->address, RSTRING_PTR(address), RSTRING_LEN(address));
    name->address_length = (socklen_t)RSTRING_LEN(address);
    name->flags = wanted;
    nb_job_await(&scheduler->engine, NB_POOL_NAMES, NB_LEAVE_AT_ONCE, &name->job, address);
    int error = name->error, system_error = name->system_error;
    char host[NI_MAXHOST], service[NI_MAXSERV];
    memcpy(host, name->host_name, sizeof host);
    memcpy(service, name->service_name, sizeof service);
    release(&name->job);
    if (error) fail(error, system_error, "getnameinfo");
    return rb_assoc_new(rb_str_new_cstr(host), rb_str_new_cstr(service));
}

void nb_init_names(void) {
    rb_define_method(nb_cScheduler, "getaddrinfo", getaddrinfo_m, 6);
    rb_define_method(nb_cScheduler, "getnameinfo", getnameinfo_m, 2);
}
