# frozen_string_literal: true

require_relative "plan"

module NeverBlockFuzz
  # Planted defects: each makes something of Ruby's or NeverBlock's wrong, and the check that is meant for it must find it
  # in a small program.
  #
  #   Plants.each { |plant| plant.defect.call … }    # rake fuzz:runtime PLANTS=1
  module Plants
    # A defect: how it is made, the program that meets it, and the kind of failure that must be found.
    # A program is written as [operation, arguments, inner operations].
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
    private_constant :FILE, :STREAM, :CHILD, :TWICE

    # Replaces methods of a class or of a module's own; `super` is the original one.
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
      [:a_sleep_is_short, :sleep_short, [[:sleep, {seconds: 0.02}]], -> { change(NeverBlockFuzz::Program) { def sleep(seconds) = super(seconds / 2) } }],
      [:an_item_is_lost, :queue_item, [[:push, {queue: 0, items: 2, limit: 1}]], -> { change(Thread::Queue) { def push(item) = (super unless item.is_a?(Integer)) || self } }],
      [:an_item_comes_twice, :queue_item, [[:push, {queue: 0, items: 1, limit: 1}], [:pop, {queue: 0, items: 1, limit: 1, with: :argument}]],
        -> { change(Thread::Queue) { def pop(...) = super.tap { |item| push(item) if item.is_a?(Integer) && empty? } } }],
      [:a_pop_gives_up_early, :timeout_early, [[:pop, {queue: 0, items: 1, limit: 0.05, with: :argument}]], -> { change(Thread::Queue) { def pop(*, timeout: nil) = super(*, timeout: timeout && timeout / 5) } }],
      [:a_timeout_is_early, :timeout_early, [[:timeout, {limit: 0.05, kind: :own}, [[:sleep, {seconds: 1}]]]], -> { change(Timeout.singleton_class) { def timeout(seconds, *) = super(seconds / 5, *) } }],
      [:a_timeout_comes_later, :unexplained_error, [[:timeout, {limit: 0.05, kind: :own}, []], [:pass, {times: 1}]],
        -> { change(NeverBlock.singleton_class) { def pass = raise(Class.new(NeverBlockFuzz::OwnTimeout), "execution expired") } }],
      [:a_shield_does_nothing, :shield_pierced, [[:timeout, {limit: 0.005, kind: :own}, [[:shield, {}, [[:sleep, {seconds: 0.05}]]]]]], -> { change(NeverBlock.singleton_class) { def shield = yield } }],
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
      [:a_rescued_timeout_is_lost, :wait_ended, [[:timeout, {limit: 0.01, kind: :bare}, [[:catch_all, {}, [[:forever, {kind: :queue}]]]]]], -> { change(NeverBlockFuzz::Program) { def sleep(*) = nil } }],
      [:an_unknown_error, :unexplained_error, [[:spawn, {}, [[:pass, {times: 1}]]]], -> { change(NeverBlock.singleton_class) { def pass = raise("planted") } }],
      [:a_segmentation_fault, :crash, [[:pass, {times: 1}]], -> { change(NeverBlock.singleton_class) { def pass = Process.kill(:KILL, Process.pid) } }],
      [:a_hang, :hang, [[:pass, {times: 1}]], -> { change(NeverBlock.singleton_class) { def pass = Thread::Queue.new.pop(timeout: 60) } }]
    ].map { |fields| Plant.new(*fields) }.freeze

    # @return [Array<String>] those that the checks did not find, with what they found instead
    def self.missed
      ALL.filter_map do |plant|
        outcome = Runner.new(limit: (plant.kind == :hang) ? 2 : 30, patience: 0.5, plant: plant.defect).outcome(plant.plan)
        kinds = outcome.failures.map(&:first)
        "#{plant.name}: expected #{plant.kind}, found #{outcome.failures.inspect}" unless kinds.include?(plant.kind)
      end
    end

    # @return [Array<String>] those whose program fails without the defect
    def self.unsound
      ALL.filter_map do |plant|
        outcome = Runner.new.outcome(plant.plan)
        "#{plant.name}: without the defect, #{outcome.failures.inspect}" if outcome.failed? && plant.kind != :wait_ended
      end
    end
  end
end
