/* NeverBlock::Clock, documented in lib/neverblock/clock.rb: the engine's clock for Ruby code. */
#include "scheduler.h"

static VALUE now(VALUE module) { return DBL2NUM((double)nb_now() / 1e9); }

static VALUE nanoseconds(VALUE module) { return ULL2NUM(nb_now()); }

static VALUE wall(VALUE module) { return DBL2NUM((double)nb_now_wall() / 1e9); }

static VALUE time_m(VALUE module) {
    uint64_t wall = nb_now_wall();
    return rb_time_nano_new((time_t)(wall / NB_SECOND), (long)(wall % NB_SECOND));
}

static VALUE virtual_p(VALUE module) { return RBOOL(nb_clock_is_virtual()); }

/* call-seq: Clock.start_virtual -- for Testing::VirtualClock, as the next two */
static VALUE start_virtual(VALUE module) {
    nb_schedulers_shift(nb_clock_start_virtual());
    return Qnil;
}

static VALUE stop_virtual(VALUE module) {
    nb_schedulers_shift(nb_clock_stop_virtual());
    return Qnil;
}

/* call-seq: Clock.advance(seconds) */
static VALUE advance(VALUE module, VALUE seconds) {
    nb_clock_advance_to(nb_after(NUM2DBL(seconds)));
    return Qnil;
}

void nb_init_clock(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "Clock");
    rb_define_singleton_method(module, "now", now, 0);
    rb_define_singleton_method(module, "nanoseconds", nanoseconds, 0);
    rb_define_singleton_method(module, "wall", wall, 0);
    rb_define_singleton_method(module, "time", time_m, 0);
    rb_define_singleton_method(module, "virtual?", virtual_p, 0);
    rb_define_singleton_method(module, "start_virtual", start_virtual, 0);
    rb_define_singleton_method(module, "stop_virtual", stop_virtual, 0);
    rb_define_singleton_method(module, "advance", advance, 1);
}
