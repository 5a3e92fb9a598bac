/*
 * How a block was left. Ruby code can't see that: an `ensure` looks the same after `return`, `throw` and Thread#kill.
 *
 *     NeverBlock::Unwinding.watch(place, connection) { |connection| … }   # => the block's value
 *     place.unwound   # => RAISE, THROW or KILL; unchanged if the block has ended, or was left by break or return
 *     place.depth     # => one less
 *
 * Both are noted together, before an exception from outside can arrive. The place's @fiber tells whether it is still
 * the caller's: the block may have given it back.
 */
#include "runtime.h"

/* Ruby's enum ruby_tag_type, which rb_protect tells its caller. The numbers are those of Ruby 1.8 and all since. */
enum { RETURN = 1, BREAK = 2, RAISE = 6, THROW = 7, KILL = 8 };

static ID id_unwound, id_depth, id_fiber;

/* No Ruby code may run in here: it would replace what is under way. */
static void note(VALUE place, int tag) {
    if (rb_ivar_get(place, id_fiber) != rb_fiber_current()) return;
    rb_ivar_set(place, id_depth, INT2FIX(FIX2INT(rb_ivar_get(place, id_depth)) - 1));
    if (tag && tag != RETURN && tag != BREAK) rb_ivar_set(place, id_unwound, INT2FIX(tag));
}

/* call-seq: watch(place, argument) { |argument| } -> the block's value */
static VALUE watch(VALUE module, VALUE place, VALUE argument) {
    int tag = 0;
    rb_need_block();
    VALUE value = rb_protect(rb_yield, argument, &tag);
    note(place, tag);
    if (tag) rb_jump_tag(tag);
    return value;
}

void nb_init_unwinding(void) {
    VALUE module = rb_define_module_under(nb_mNeverBlock, "Unwinding");
    id_unwound = rb_intern("@unwound");
    id_depth = rb_intern("@depth");
    id_fiber = rb_intern("@fiber");
    rb_define_const(module, "RAISE", INT2FIX(RAISE));
    rb_define_const(module, "THROW", INT2FIX(THROW));
    rb_define_const(module, "KILL", INT2FIX(KILL));
    rb_define_singleton_method(module, "watch", watch, 2);
}
