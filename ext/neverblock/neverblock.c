/*
 * The extension's entry: engine/ knows fibers, descriptors and deadlines; scheduler/ fits it to Ruby's hooks;
 * http/ is the server and the proxy's client, postgres/ the multiplexer, sql/ the texts of statements, runtime/ what
 * Ruby code can't see by itself.
 */
#include "http/app/app.h"
#include "http/client/client.h"
#include "postgres/postgres.h"
#include "runtime/runtime.h"
#include "scheduler/scheduler.h"
#include "sql/sql.h"

VALUE nb_mNeverBlock;

RUBY_FUNC_EXPORTED void Init_neverblock_ext(void) {
    rb_ext_ractor_safe(true);
    nb_mNeverBlock = rb_define_module("NeverBlock");
    nb_init_scheduler();
    nb_init_clock();
    nb_init_introspection();
    nb_init_native_threads();
    nb_init_chdir();
    nb_init_signals();
    nb_init_task();
    nb_init_joiners();
    nb_init_task_fiber();
    nb_init_cancel_scopes();
    nb_init_waits();
    nb_init_ticket();
    nb_init_io_wait();
    nb_init_io_select();
    nb_init_io_transfer();
    nb_init_files();
    nb_init_dns();
    nb_init_process();
    nb_init_offload();
    nb_init_select_queue();
    nb_init_lock_waiters();
    nb_init_masks();
    nb_init_in_turn();
    nb_init_timeout_after();
    nb_init_unwinding();
    nb_init_http();
    nb_init_field_lines();
    nb_init_response_parser();
    nb_init_libpq();
    nb_init_sql_shape();
}
