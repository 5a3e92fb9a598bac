# frozen_string_literal: true

require_relative "plan"

module NeverBlockFuzz
  # Makes a program from a seed. All random choices of the fuzzer are made here.
  #
  #   Generator.new(7).plan
  #
  # A program can always end: an endless wait stands only where a timeout, a cancellation or a race ends it, code that
  # holds a lock takes no other lock and waits for no task, and a task waits only for younger ones.
  class Generator
    # The event that ends an endless wait. A timeout without a class is raised again at the next wait; any other is
    # raised once, and is `spent` if an inner timeout, which expires while an ensure block waits, may have replaced it,
    # as in any Ruby program. `root`: the interrupt of the whole loop, which arrives in any of its tasks.
    Ender = Struct.new(:again, :spent, :root)

    # The position of an operation.
    # depth: the number of enclosing operations. ender: the event that ends an endless wait here, if there is one.
    # locked: whether a lock, a pool's place or a flight is held. exposed: whether waits of other tasks end only when
    # this code is unwound, so that no shield may surround it.
    Place = Struct.new(:depth, :ender, :locked, :exposed) do
      def inside(**changes) = Place.new(depth + 1, *%i[ender locked exposed].map { |name| changes.fetch(name) { self[name] } })

      def endless? = ender && !ender.spent

      def spend = ender && !ender.again && ender.spent = true
    end

    # Operations that contain no others, with their weights.
    LEAVES = {
      sleep: 8, pass: 4, compute: 2, collect: 1, push: 6, pop: 6, wait_condition: 2, signal_condition: 2, file: 6, file_pwrite: 1,
      stream: 5, select: 2, io_timeout: 1, close_waited: 2, copy: 3, thread: 3, feeder: 2, child: 4, resolve: 1,
      offload: 4, enumerate: 4, signal: 1, semaphore_wait: 2, race_queues: 1, choose: 6, choose_all: 3, promise: 3, close_queue: 3,
      cancel_reason: 2, flock_left: 1, fifo: 2, children: 1, copy_part: 1
    }.freeze

    # Operations on other tasks.
    ATTACKS = {cancel: 6, raise_in: 3, kill: 2, await: 5, cancel_scope: 1}.freeze

    # Operations that contain others.
    NESTS = {
      spawn: 10, run: 4, timeout: 8, shield: 2, mask: 2, ensure: 3, catch_all: 2, concurrently: 2, race: 2, pool: 2, flight: 2,
      lock: 3, monitor: 1, semaphore: 3, transfer: 3, stress: 1, move_on: 5, transient: 4, as_completed: 2, flock: 2
    }.freeze

    # Nests that hold a resource while their body runs.
    HOLDING = %i[lock monitor semaphore flight pool flock].freeze

    # Operations that a locked place must not contain.
    WAITING_FOR_OTHERS = %i[await semaphore_wait wait_condition signal_condition].freeze

    PAUSES = [0, 0.0003, 0.001, 0.001, 0.002, 0.003, 0.005, 0.01].freeze
    LIMITS = [0.0003, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01].freeze
    SIZES = [1, 100, 4096, 16_384, 65_536, 200_000, 1_000_000, 4_000_000].freeze
    private_constant :Ender, :LEAVES, :ATTACKS, :NESTS, :HOLDING, :WAITING_FOR_OTHERS, :PAUSES, :LIMITS, :SIZES

    # @return [Array<Symbol>] the names of all operations
    def self.operations = [*LEAVES.keys, *ATTACKS.keys, *NESTS.keys, :forever]

    # @param seed [Integer]
    def initialize(seed)
      @seed = seed
      @random = Random.new(seed)
      @id = 0
      @budget = @random.rand(10..70)
      @signal = false
    end

    # @return [Plan]
    def plan
      roots = Array.new(chance(0.15) ? 2 : 1) { root }
      Plan.new(@seed, roots)
    end

    private

    def chance(part) = @random.rand < part

    def pick(list) = list[@random.rand(list.size)]

    def pause = pick(PAUSES)

    def limit = pick(LIMITS)

    # @return [Float, nil] a limit, or nil
    def limit_perhaps(part = 0.4) = (limit if chance(part))

    def weighted(table)
      left = @random.rand(table.values.sum)
      table.each { |name, weight| return name if (left -= weight) < 0 }
    end

    def node(op, args = {}, &body)
      id = @id += 1
      Plan::Node.new(id, op, args.compact, body ? body.call : [])
    end

    # An outer timeout of plain Ruby, an interrupt of the loop's thread, or neither.
    def root
      fate = @random.rand
      args = if fate < 0.1 then {where: :main, outer: @random.rand(0.002..0.05).round(4)}
      elsif fate < 0.2 then {where: pick(%i[main thread]), interrupt: :raise, after: @random.rand(0.001..0.03).round(4)}
      elsif fate < 0.27 then {where: :thread, interrupt: :kill, after: @random.rand(0.001..0.03).round(4)}
      else
        {where: chance(0.7) ? :main : :thread}
      end
      args[:exit] = :cancel if chance(0.15)
      ended = args.key?(:outer) || args.key?(:interrupt)
      place = Place.new(0, (Ender.new(false, false, true) if ended), false, ended)
      @ended_by_root = []
      all = node(:root, args) { Array.new(@random.rand(2..6)) { chance(0.6) ? spawn(place) : operation(place) } }
      @ended_by_root.each { |one| one.op, one.args = :sleep, {seconds: 0.001} } if Plan.new(@seed, [all]).uses?(:ensure, :await, :as_completed)
      all
    end

    def body(place, count = @random.rand(1..4)) = Array.new(count) { operation(place) }

    def operation(place)
      @budget -= 1
      return forever(place) if place.endless? && chance(0.12)
      kind = @random.rand
      if @budget > 0 && place.depth < 5 && kind < 0.45 then nest(place)
      elsif kind < 0.6 then attack(place)
      else
        leaf(place)
      end
    end

    def forever(place)
      node(:forever, kind: pick(%i[sleep queue pipe condition thread child])).tap { |one| @ended_by_root << one if place.ender.root }
    end

    def attack(place)
      name = weighted(ATTACKS)
      return leaf(place) if place.locked && WAITING_FOR_OTHERS.include?(name)
      place.spend if name == :await # a waiter for a cancelled task goes on
      send(name)
    end

    def leaf(place)
      name = weighted(LEAVES)
      name = :sleep if place.locked && WAITING_FOR_OTHERS.include?(name)
      name = :sleep if name == :signal && @signal # one signal per program
      @signal ||= name == :signal
      send(name)
    end

    def nest(place)
      name = weighted(NESTS)
      name = :spawn if place.locked && HOLDING.include?(name)
      name = :run if place.locked && name == :spawn
      name = :ensure if place.exposed && %i[shield mask].include?(name)
      send(name, place)
    end

    # ---- operations without a body ----
    def sleep = node(:sleep, seconds: pause)

    def pass = node(:pass, times: @random.rand(1..5))

    def compute = node(:compute, rounds: @random.rand(1..30))

    def collect = node(:collect, kind: pick(%i[start compact minor]))

    def push = node(:push, queue: @random.rand(3), items: @random.rand(1..3), limit: 0.02)

    def pop = node(:pop, queue: @random.rand(3), items: @random.rand(1..3), limit: limit, with: pick(%i[argument timeout nonblock]))

    def wait_condition = node(:wait_condition, lock: @random.rand(2), limit: limit)

    def signal_condition = node(:signal_condition, lock: @random.rand(2), all: chance(0.3))

    def file(op = :file)
      node(op, size: pick(SIZES), limit: limit_perhaps(0.6), after: pick(%i[keep rewrite append]),
        evict: chance(0.3) || nil, read: pick([nil, 64, 16_384, 65_536, 1_000_000]), read_limit: limit_perhaps(0.6), how: (pick(%i[write write syswrite]) if op == :file))
    end

    def file_pwrite = file(:file_pwrite)

    def stream
      node(:stream, kind: pick(%i[pipe pipe pair tcp tls]), size: pick(SIZES.first(7)), chunk: pick([1000, 16_384, 70_000, 300_000]),
        how: pick(%i[readpartial readpartial read sysread gets wait]), read_limit: limit_perhaps, write_limit: limit_perhaps(0.2), slow: limit_perhaps(0.2))
    end

    def select = node(:select, data: chance(0.5), limit: limit, also: chance(0.5))

    def io_timeout = node(:io_timeout, limit: limit, kind: pick(%i[pipe pair]))

    def close_waited = node(:close_waited, kind: pick(%i[pipe pair]), waiters: @random.rand(1..2), how: pick(%i[read wait select]))

    def copy
      from, to = pick([%i[file pipe], %i[pipe file], %i[pair pair], %i[file file], %i[pipe pipe], %i[file pair]])
      node(:copy, from: from, to: to, size: pick(SIZES.first(7)), limit: limit_perhaps)
    end

    def thread = node(:thread, kind: pick(%i[sleep run queue]), seconds: pause, limit: limit_perhaps, join: chance(0.3))

    def feeder = node(:feeder, queue: @random.rand(2), items: @random.rand(1..5), seconds: pause)

    def child
      node(:child, by: pick(%i[fork fork spawn]), kind: pick(%i[exit exit! run]), code: @random.rand(1..100), seconds: pause,
        wait: pick(%i[one one any detach later status]), limit: limit_perhaps(0.5))
    end

    def resolve = node(:resolve)

    def offload = node(:offload, kind: pick(%i[value sleep run nested many]), seconds: pause, limit: limit_perhaps(0.5))

    def enumerate
      node(:enumerate, items: @random.rand(1..6), take: @random.rand(1..6), seconds: pause, inner_limit: limit_perhaps(0.5),
        limit: limit_perhaps(0.3))
    end

    def signal = node(:signal, seconds: 0.01)

    def semaphore_wait = node(:semaphore_wait, semaphore: @random.rand(2), limit: limit)

    def race_queues = node(:race_queues, queues: [0, 1], limit: limit)

    def choose
      pops = Array.new(3) { |number| number }.select { chance(0.5) }
      pushes = (chance(0.3) || pops.empty?) ? [pick([2, 2, 0])] : []
      node(:choose, pops: pops, pushes: pushes, limit: limit, with: pick(%i[argument timer around]))
    end

    def choose_all
      kinds = %i[pop pop closed push promise task thread timer readable writable]
      node(:choose_all, sources: Array.new(@random.rand(1..5)) { [pick(kinds), pause] }, limit: limit_perhaps, plain: chance(0.5))
    end

    def promise
      settlers = Array.new(@random.rand(1..3)) { |index| [index.zero? ? :task : pick(%i[task thread]), pick(%i[fulfill reject]), pause] }
      node(:promise, waiters: Array.new(@random.rand(1..5)) { pick(%i[value wait timed timeout select thread]) }, settlers: settlers, limit: limit)
    end

    def close_queue
      node(:close_queue, size: pick([nil, 1, 3]), producers: Array.new(@random.rand(1..3)) { @random.rand(0..4) }, seconds: pause,
        consumers: Array.new(@random.rand(1..3)) { pick(%i[pop limited select thread]) }, limit: limit)
    end

    def cancel_reason
      node(:cancel_reason, kind: pick(%i[sleep queue pipe condition thread]), depth: @random.rand(3), passes: @random.rand(5))
    end

    def flock_left = node(:flock_left, limit: limit, leave: pick(%i[timeout cancel]))

    def fifo
      node(:fifo, end: pick(%i[read write]), leave: pick([nil, nil, :timeout, :cancel]), limit: limit, seconds: pause,
        size: pick(SIZES.first(6)), chunk: pick([1000, 70_000]), how: pick(%i[readpartial read]), read_limit: limit_perhaps(0.3))
    end

    def children
      node(:children, codes: Array.new(@random.rand(1..4)) { @random.rand(1..100) }, seconds: pause, waiters: @random.rand(1..2),
        limit: limit_perhaps, all: chance(0.5))
    end

    def copy_part
      size = pick(SIZES.first(7))
      node(:copy_part, to: pick(%i[file pipe pair]), size: size, offset: @random.rand(0..size), length: pick([nil, 0, size / 2, size * 2]),
        limit: limit_perhaps, path: chance(0.3))
    end

    # ---- operations on other tasks ----
    def target = @random.rand(1000)

    def cancel = node(:cancel, target: target, force: chance(0.2) || nil, reason: chance(0.5) || nil)

    def raise_in = node(:raise_in, target: target)

    def kill = node(:kill, target: target)

    def await = node(:await, target: target, how: pick(%i[value join]), limit: limit_perhaps(0.5))

    def cancel_scope = node(:cancel_scope, reason: chance(0.5) || nil)

    # ---- operations with a body ----
    def spawn(place)
      inner = place.depth.zero? ? {ender: place.ender && Ender.new(false, false, true), exposed: false} : {ender: nil}
      node(:spawn, keep: chance(0.8)) { body(place.inside(**inner)) }
    end

    def run(place) = node(:run, exit: (:cancel if chance(0.3))) { body(place.inside) }

    def timeout(place)
      place.spend
      kind = pick(%i[bare own never at])
      node(:timeout, limit: limit, kind: kind) { body(place.inside(ender: Ender.new(kind != :own))) }
    end

    def shield(place) = node(:shield) { body(place.inside(ender: nil), 2) }

    def mask(place) = node(:mask) { body(place.inside(ender: nil), 2) }

    def ensure(place) = node(:ensure, seconds: pause, descriptor: chance(0.5)) { body(place.inside) }

    def catch_all(place) = node(:catch_all) { body(place.inside) }

    def concurrently(place)
      node(:concurrently, items: @random.rand(1..6), limit: @random.rand(1..3)) { body(place.inside(ender: nil), 1) }
    end

    def race(place)
      ended = node(:contest) { [sleep] }
      node(:race) { [ended, *Array.new(@random.rand(1..2)) { node(:contest) { body(place.inside(ender: Ender.new(false)), 2) } }] }
    end

    def pool(place)
      node(:pool, size: @random.rand(1..3), tasks: @random.rand(1..6), drain: chance(0.7)) { body(place.inside(locked: true, ender: nil), 1) }
    end

    def flight(place) = node(:flight, key: @random.rand(2)) { body(place.inside(locked: true, ender: nil), 1) }

    def lock(place) = node(:lock, lock: @random.rand(2)) { body(place.inside(locked: true), 2) }

    def monitor(place) = node(:monitor) { body(place.inside(locked: true), 2) }

    def semaphore(place)
      node(:semaphore, semaphore: @random.rand(2), limit: limit_perhaps) { body(place.inside(locked: true), 2) }
    end

    def transfer(place)
      node(:transfer, limit: limit_perhaps(0.5), kind: pick(%i[bare own])) { body(place.inside(ender: nil), 2) }
    end

    def move_on(place)
      place.spend
      node(:move_on, limit: chance(0.1) ? 0 : limit) { body(place.inside(ender: Ender.new(true))) }
    end

    def transient(place)
      kinds = %i[forever loop items parent ends]
      node(:transient, tasks: Array.new(@random.rand(1..3)) { pick(kinds) }, seconds: pause, queue: @random.rand(3)) { body(place.inside) }
    end

    def as_completed(place)
      place.spend # like await
      node(:as_completed, items: @random.rand(0..5), tasks: @random.rand(0..2), limit: @random.rand(1..3), stop: (@random.rand(1..3) if chance(0.3)),
        slow: limit_perhaps(0.3)) { body(place.inside(ender: nil), 1) }
    end

    def flock(place)
      node(:flock, lock: @random.rand(2), shared: chance(0.4), unlock: chance(0.5), limit: limit_perhaps) { body(place.inside(locked: true), 2) }
    end

    # Short, since each allocation of any task costs a collection meanwhile.
    def stress(_place) = node(:stress) { [send(pick(%i[sleep pass push pop select enumerate]))] }
  end
end
