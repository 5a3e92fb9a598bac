# frozen_string_literal: true

require_relative "plan"

module NeverBlockFuzz
  # Planted defects: each breaks something of Ruby's or NeverBlock's, and the intended check must find it in a small
  # program.
  #
  #   Plants.each { |plant| plant.defect.call … }    # rake fuzz:runtime PLANTS=1
  module Plants
    # A defect: its definition, a program that runs into it, and the kind of failure that must be found. A program is
    # written as [operation, arguments, inner operations].
    Plant = Struct.new(:name, :kind, :program, :defect) do
      # @return [Plan]
      def plan
        @ids = 0
        Plan.new(0, [node([:root, {where: :main}, program])])
      end

      private

      def node((op, args, body)) = Plan::Node.new(@ids += 1, op, args || {}, (body || []).map { |inner| node(inner) })
    end

    FILE = {size: 5000, after: :keep, read: 64, how: :write}.freeze
    STREAM = {kind: :pipe, size: 5000, chunk: 1000, how: :readpartial}.freeze
    CHILD = {by: :spawn, kind: :exit, code: 7, seconds: 0, wait: :one}.freeze
    TWICE = ->(inner) { [[:spawn, {}, [inner]], [:spawn, {}, [inner]]] }
    CHOICE = {pops: [], pushes: [], limit: 0.01, with: :argument}.freeze
    PUSHES = Array.new(2) { |number| [:push, {queue: number, items: 1, limit: 1}] }.freeze
    private_constant :FILE, :STREAM, :CHILD, :TWICE, :CHOICE, :PUSHES

    # Replaces methods of a class, or a module's own; `super` is the original one.
    def self.change(target, &block)
      target.prepend(Module.new(&block))
      nil
    end

    ALL = [
      [:a_wrong_byte_is_read, :file_content, [[:file, FILE]], -> { change(IO) { def readpartial(...) = super.tap { |data| data.setbyte(3, data.getbyte(3) ^ 1) } } }],
      [:a_byte_is_not_written, :file_content, [[:file, {**FILE, read: nil}]], -> { change(File) { def write(data) = super(data.byteslice(0, data.bytesize - 1)) + 1 } }],
      [:something_is_written_later, :file_content, [[:file, {**FILE, read: nil}], [:sleep, {seconds: 0.05}]],
        -> { change(File) { def write(data) = super.tap { Thread.new { File.open(self, "ab") { |file| file.syswrite("late") } } if data.bytesize == 5000 } } }],
      [:a_stream_has_a_gap, :stream_content, [[:stream, STREAM]], -> { change(IO) { def readpartial(...) = super.then { |data| data.byteslice(1..) } } }],
      [:a_sleep_is_short, :sleep_short, [[:sleep, {seconds: 0.5}]], -> { change(NeverBlockFuzz::Program) { def sleep(seconds) = super(seconds / 50) } }],
      [:an_item_is_lost, :queue_item, [[:push, {queue: 0, items: 2, limit: 1}]], -> { change(Thread::Queue) { def push(item) = (super unless item.is_a?(Integer)) || self } }],
      [:an_item_comes_twice, :queue_item, [[:push, {queue: 0, items: 1, limit: 1}], [:pop, {queue: 0, items: 1, limit: 1, with: :argument}]],
        -> { change(Thread::Queue) { def pop(...) = super.tap { |item| push(item) if item.is_a?(Integer) && empty? } } }],
      [:a_pop_gives_up_early, :timeout_early, [[:pop, {queue: 0, items: 1, limit: 0.5, with: :argument}]], -> { change(Thread::Queue) { def pop(*, timeout: nil) = super(*, timeout: timeout && timeout / 50) } }],
      [:a_timeout_is_early, :timeout_early, [[:timeout, {limit: 0.5, kind: :own}, [[:sleep, {seconds: 1}]]]], -> { change(Timeout.singleton_class) { def timeout(seconds, *) = super(seconds / 50, *) } }],
      [:a_timeout_comes_later, :unexplained_error, [[:timeout, {limit: 0.05, kind: :own}, []], [:pass, {times: 1}]],
        -> { change(NeverBlock.singleton_class) { def pass = raise(Class.new(NeverBlockFuzz::OwnTimeout), "execution expired") } }],
      [:a_shield_does_nothing, :shield_pierced, [[:timeout, {limit: 0.005, kind: :own}, [[:shield, {}, [[:sleep, {seconds: 0.05}]]]]]], -> { change(NeverBlock.singleton_class) { def shield = yield } }],
      [:a_mask_does_nothing, :shield_pierced, [[:timeout, {limit: 0.005, kind: :own}, [[:mask, {}, [[:sleep, {seconds: 0.05}]]]]]], -> { change(NeverBlock::Scheduler) { def masked(_) = yield } }],
      [:a_mutex_does_nothing, :too_many, TWICE[[:lock, {lock: 0}, [[:sleep, {seconds: 0.01}]]]], -> { change(Thread::Mutex) { def synchronize = yield } }],
      [:a_mutex_stays_locked, :place_held, [[:lock, {lock: 0}, []]], -> { change(NeverBlockFuzz::Program) { def op_lock(*) = @locks.first.tap { |lock| Thread.new { lock.lock && sleep } && sleep(0.001) until lock.locked? } } }],
      [:a_place_is_not_given_back, :place_held, [[:semaphore, {semaphore: 1}, []]], -> { change(NeverBlock::Semaphore) { def release = self } }],
      [:too_many_have_a_place, :too_many, TWICE[[:semaphore, {semaphore: 0}, [[:sleep, {seconds: 0.01}]]]], -> { change(NeverBlock::Semaphore) { def acquire(**) = yield } }],
      [:concurrently_has_no_limit, :too_many, [[:concurrently, {items: 3, limit: 1}, [[:sleep, {seconds: 0.01}]]]], -> { change(NeverBlock.singleton_class) { def concurrently(items, limit:, &) = super(items, limit: 9, &) } }],
      [:a_key_is_computed_twice, :too_many, TWICE[[:flight, {key: 0}, [[:sleep, {seconds: 0.01}]]]], -> { change(NeverBlock::Flight) { def call(_key) = yield } }],
      [:a_race_has_no_winner, :word_value, [[:race, {}, [[:contest, {}, [[:pass, {times: 1}]]]]]], -> { change(NeverBlock.singleton_class) { def race(*) = super && nil } }],
      [:an_offload_returns_nothing, :offload_value, [[:offload, {kind: :value, seconds: 0}]], -> { change(NeverBlock.singleton_class) { def offload = nil } }],
      [:a_thread_has_another_value, :thread_value, [[:thread, {kind: :sleep, seconds: 0}]], -> { change(Thread) { def value = super && nil } }],
      [:a_task_has_another_value, :task_value, [[:spawn, {keep: true}, []], [:await, {target: 0, how: :value}]], -> { change(NeverBlock::Task) { def value = super && nil } }],
      [:a_task_is_alive, :task_alive, [[:spawn, {}, []]], -> { change(NeverBlock::Task) { def alive? = true } }],
      [:an_ensure_never_runs, :ensure_count, [[:spawn, {}, [[:catch_all, {}, []]]]], -> { change(NeverBlockFuzz::Ledger) { def leave(number) = (super if number.zero?) } }],
      [:an_ensure_runs_twice, :ensure_count, [[:spawn, {}, []]], -> { change(NeverBlockFuzz::Ledger) { def leave(number) = 2.times { super(number) } } }],
      [:a_status_is_lost, :child_status, [[:child, CHILD]], -> { change(Process.singleton_class) { def wait2(*) = super && raise(Errno::ECHILD) } }],
      [:a_status_is_wrong, :child_status, [[:child, {**CHILD, code: 8}]], -> { change(Process.singleton_class) { def spawn(_command) = super("exit 9") } }],
      [:a_child_is_left, :child_left, [[:child, CHILD]], -> { change(Process.singleton_class) { def spawn(*) = super("exec sleep 5") && super } }],
      [:a_descriptor_is_left, :descriptor_left, [[:select, {data: true, limit: 0.01, also: false}]], -> { change(IO.singleton_class) { def pipe(*) = (@left = super(&nil)) && super } }],
      [:a_thread_is_left, :thread_left, [[:pass, {times: 1}]], -> { change(NeverBlock.singleton_class) { def pass = Thread.new { sleep } } }],
      [:select_misses_one, :select_value, [[:select, {data: true, limit: 0.01, also: false}]], -> { change(IO.singleton_class) { def select(*) = super && nil } }],
      [:an_enumerator_returns_another_value, :enumerator_value, [[:enumerate, {items: 2, take: 1, seconds: 0}]], -> { change(Enumerator) { def next = super && -1 } }],
      [:a_wait_ends_by_itself, :wait_ended, [[:timeout, {limit: 1, kind: :own}, [[:forever, {kind: :sleep}]]]], -> { change(NeverBlockFuzz::Program) { def sleep(*) = super(0) } }],
      [:select_takes_from_the_losers, :queue_item, [*PUSHES, [:choose, {**CHOICE, pops: [0, 1]}]], -> { change(NeverBlock::Select) { def call = super.tap { @cases.each(&:take) } } }],
      [:select_puts_what_it_did_not_choose, :queue_item, [[:choose, {**CHOICE, pushes: [2], limit: 0}]], -> { change(NeverBlock::Select) { def call = @cases.each { |one| one.source.push(one.act(true)) } && nil } }],
      [:select_gives_up_early, :timeout_early, [[:choose, {**CHOICE, pops: [0], limit: 0.5}]], -> { change(NeverBlock::Select) { def initialize(timeout:) = super(timeout: timeout / 50) } }],
      [:select_loses_an_item, :choice_lost, [[:choose_all, {sources: [[:pop, 0], [:pop, 0]], plain: false}]], -> { change(NeverBlock::Select) { def call = super.tap { @cases.each(&:take) } } }],
      [:select_returns_another_value, :choice_value, [[:choose_all, {sources: [[:promise, 0]], plain: true}]], -> { change(NeverBlock::Promise) { def value(...) = super && "other" } }],
      [:select_sees_room_where_there_is_none, :choice_value, [[:choose_all, {sources: [[:writable, 0.01]], plain: false}]], -> { change(IO.singleton_class) { def select(*lists) = lists.first(2) } }],
      [:a_promise_is_settled_twice, :promise_value, [[:promise, {waiters: [:value], settlers: [[:task, :fulfill, 0]] * 2, limit: 1}]], -> { change(NeverBlock::Promise) { def fulfill(value = nil) = super || true } }],
      [:waiters_see_different_values, :promise_value, [[:promise, {waiters: %i[value value], settlers: [[:task, :fulfill, 0]], limit: 1}]], -> { change(NeverBlock::Promise) { def value(...) = super.dup } }],
      [:a_close_drops_items, :queue_item, [[:close_queue, {producers: [2], consumers: [], seconds: 0.01}]], -> { change(Thread::Queue) { def close = clear && super } }],
      [:a_closed_queue_takes_items, :close_value, [[:close_queue, {producers: [], consumers: [:pop], seconds: 0}]], -> { change(Thread::Queue) { def push(item) = closed? ? self : super } }],
      [:a_transient_task_ends_early, :transient_end, [[:transient, {tasks: [:loop], seconds: 0.001, queue: 0}, [[:sleep, {seconds: 0.5}]]]],
        -> { change(NeverBlock::Scope) { def start(*, transient: false, **) = super.tap { |task| transient && Thread.new { sleep(0.02) && task.cancel("only transient tasks are left in its scope") } } } }],
      [:a_scope_forgets_its_transient_tasks, :hang, [[:transient, {tasks: [:forever], seconds: 0, queue: 0}]], -> { change(NeverBlock::Scope) { def start(*, transient: false, **) = super(*, **) } }],
      [:a_reason_is_lost, :cancel_reason, [[:cancel_reason, {kind: :sleep, depth: 1, passes: 2}]], -> { change(NeverBlock::Task) { def cancel(_ = nil, force: false) = super(nil, force:) } }],
      [:a_reason_is_nobodys, :cancel_reason, [[:spawn, {keep: true}, [[:timeout, {limit: 1, kind: :own}, [[:forever, {kind: :sleep}]]]]], [:pass, {times: 1}], [:cancel, {target: 0}]], -> { change(NeverBlock::Task) { def cancel(_ = nil, force: false) = super("other", force:) } }],
      [:a_deadline_is_early, :timeout_early, [[:timeout, {limit: 2, kind: :at}, [[:sleep, {seconds: 3}]]]], -> { change(NeverBlock.singleton_class) { def timeout_at(at) = super(at - 1.7) } }],
      [:it_moves_on_early, :timeout_early, [[:move_on, {limit: 0.5}, [[:sleep, {seconds: 1}]]]], -> { change(NeverBlock.singleton_class) { def move_on_after(seconds) = super(seconds / 50) } }],
      [:it_moves_on_with_a_value, :move_on_value, [[:move_on, {limit: 0.01}, [[:sleep, {seconds: 1}]]]], -> { change(NeverBlock.singleton_class) { def move_on_after(seconds) = super || :late } }],
      [:it_has_a_value_and_has_expired, :move_on_value, [[:move_on, {limit: 1}, [[:pass, {times: 1}]]]], -> { change(NeverBlock::CancelScope) { def expired? = true } }],
      [:as_completed_miscounts, :word_value, [[:as_completed, {items: 2, tasks: 1, limit: 1}, [[:pass, {times: 1}]]]], -> { change(NeverBlock.singleton_class) { def as_completed(*, **, &) = super - 1 } }],
      [:as_completed_yields_twice, :word_value, [[:as_completed, {items: 1, tasks: 0, limit: 1}, []]], -> { change(NeverBlock.singleton_class) { def as_completed(*, **, &block) = super { |*pair| 2.times { block.call(*pair) } } } }],
      [:as_completed_has_no_limit, :too_many, [[:as_completed, {items: 3, tasks: 0, limit: 1}, [[:sleep, {seconds: 0.01}]]]], -> { change(NeverBlock.singleton_class) { def as_completed(items, limit:, &) = super(items, limit: 9, &) } }],
      [:flock_does_nothing, :too_many, TWICE[[:flock, {lock: 0}, [[:sleep, {seconds: 0.01}]]]], -> { change(File) { def flock(_) = 0 } }],
      [:flock_stays, :place_held, [[:flock, {lock: 0}, []]], -> { change(File) { def flock(operation) = super.tap { ($neverblock_left ||= []) << dup } } }], # standard:disable Style/GlobalVars
      [:flock_is_given_to_two, :lock_lost, [[:flock_left, {limit: 0.01, leave: :cancel}]], -> { change(File) { def flock(_) = 0 } }],
      [:flock_is_given_later, :place_held, [[:flock_left, {limit: 0.01, leave: :timeout}]], -> { change(File) { def flock(operation) = (operation == File::LOCK_UN) ? 0 : super } }],
      [:a_status_of_a_group_is_lost, :child_status, [[:children, {codes: [1, 2], seconds: 0, waiters: 1}]], -> { change(Process.singleton_class) { def wait2(*) = super && raise(Errno::ECHILD) } }],
      [:a_copy_begins_elsewhere, :file_content, [[:copy_part, {to: :file, size: 5000, offset: 10, length: 100}]], -> { change(IO.singleton_class) { def copy_stream(from, to, length, offset) = super(from, to, length, offset + 1) } }],
      [:a_copy_moves_its_source, :file_content, [[:copy_part, {to: :file, size: 5000, offset: 10}]], -> { change(IO.singleton_class) { def copy_stream(from, ...) = super.tap { from.seek(1) } } }],
      [:a_rescued_timeout_is_lost, :wait_ended, [[:timeout, {limit: 0.1, kind: :bare}, [[:catch_all, {}, [[:forever, {kind: :queue}]]]]]], -> { change(NeverBlockFuzz::Program) { def sleep(*) = nil } }],
      [:an_unknown_error, :unexplained_error, [[:spawn, {}, [[:pass, {times: 1}]]]], -> { change(NeverBlock.singleton_class) { def pass = raise("planted") } }],
      [:a_segmentation_fault, :crash, [[:pass, {times: 1}]], -> { change(NeverBlock.singleton_class) { def pass = Process.kill(:KILL, Process.pid) } }],
      [:a_hang, :hang, [[:pass, {times: 1}]], -> { change(NeverBlock.singleton_class) { def pass = Thread::Queue.new.pop(timeout: 60) } }]
    ].map { |fields| Plant.new(*fields) }

    if RUBY_VERSION >= "3.4" # earlier Rubies block the whole thread when they open a FIFO
      LATE = lambda do
        change(File.singleton_class) do
          def open(path, *)
            super
          rescue Exception # standard:disable Lint/RescueException -- raised again
            Thread.new { sysopen(path, "r+") } if path.include?("fifo")
            sleep 0.01
            raise
          end
        end
      end
      private_constant :LATE
      ALL.concat(%i[read write].map { |which| Plant.new(:"a_fifo_is_opened_later_to_#{which}", :fifo_opened, [[:fifo, {end: which, leave: :timeout, limit: 0.01}]], LATE) })
    end
    ALL.freeze

    # @return [Array<String>] defects that the checks missed, with the failures found instead
    def self.missed
      ALL.filter_map do |plant|
        outcome = Runner.new(limit: (plant.kind == :hang) ? 2 : 30, patience: 0.5, plant: plant.defect).outcome(plant.plan)
        kinds = outcome.failures.map(&:first)
        "#{plant.name}: expected #{plant.kind}, found #{outcome.failures.inspect}" unless kinds.include?(plant.kind)
      end
    end

    # @return [Array<String>] defects whose program fails without the defect
    def self.unsound
      ALL.filter_map do |plant|
        outcome = Runner.new.outcome(plant.plan)
        "#{plant.name}: without the defect, #{outcome.failures.inspect}" if outcome.failed? && plant.kind != :wait_ended
      end
    end
  end
end
