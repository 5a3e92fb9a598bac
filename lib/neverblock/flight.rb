# frozen_string_literal: true

require_relative "flight/led"
require_relative "flight/owned"

module NeverBlock
  # Runs one computation per key for all concurrent callers, which all get its value. Nothing is kept afterwards.
  #
  #   RATES = NeverBlock::Flight.new
  #
  #   NeverBlock.run do
  #     100.times { NeverBlock.spawn { RATES.call("EUR") { fetch_rates("EUR") } } }
  #   end                              # one fetch, 100 values
  #
  # It works between the fibers of a loop, between threads, and outside of loops. A forked child never waits for a
  # computation of its parent.
  #
  # The first caller of a key, its leader, computes in its own fiber, with its own state. The fate of the leader does
  # not spoil the followers:
  #
  # * A leader gives no result when it is cancelled, killed, unwound by Timeout without a class, or left by throw or
  #   break. One follower then takes over and computes with its own block.
  # * A leader whose block raises keeps its error. The followers try once more, together, with a second leader. Only the
  #   second leader's error is raised to all followers. So a failing service costs each caller two computations at most,
  #   not one per caller in sequence. An error listed in `share:` counts as a result at once.
  #
  # With `owned: true` no caller computes: the computation belongs to the flight.
  #
  #   THUMBNAILS = NeverBlock::Flight.new(owned: true)
  #   THUMBNAILS.call(id) { shrink(id) }
  #
  # * The block runs in a task in the background of the first caller's loop, which waits for the task at its end;
  #   outside of loops, in a thread. It sees no state of the first caller: neither Fiber[] nor fiber-locals.
  # * A caller that is cancelled, killed or unwound leaves. The others get the value of the same computation.
  # * When all callers have left, the computation is cancelled, or with `abandoned: :finish` goes on. It is forgotten
  #   before it is cancelled: the next caller begins another one.
  # * The block's error is raised to all callers. Each gets a copy of the exception.
  # * A computation that ends without a value or an error, because its task was cancelled or its thread was killed, is
  #   begun once more, by one of the callers. After a second such end they get an {EndedError}.
  #
  # `flight/` has the two kinds: `led.rb`, and `owned.rb` with `work.rb`.
  class Flight
    # Raised to a caller that would wait for itself.
    class CircularError < ThreadError
      include Error
    end

    # With `owned: true`: the computation ended twice without a value or an error. The `cause` is the last cancellation.
    class EndedError < StandardError
      include Error
    end

    MAX_WAITING = 10_000
    private_constant :MAX_WAITING

    # @param share [Module, Array<Module>] errors that count as a result, such as "unknown host". They are raised to all
    #   followers without a second computation. With `owned: true` all errors are
    # @param owned [Boolean] whether the computations belong to the flight instead of their first callers
    # @param max_waiting [Integer, nil] with `owned: true`: callers of one computation; further ones get an
    #   OverloadError. Default: 10,000
    # @param abandoned [:cancel, :finish, nil] with `owned: true`: what becomes of a computation when all of its callers
    #   have left. Default: :cancel
    # @raise [ArgumentError]
    def initialize(share: [], owned: false, max_waiting: nil, abandoned: nil)
      share = Array(share).each { |error| check_error(error) }
      @table = if owned
        raise ArgumentError, "share: #{share.inspect} has no use: owned: true shares every error" if share.any?
        Owned.new(Options.positive("max_waiting", max_waiting || MAX_WAITING), check_abandoned(abandoned || :cancel))
      else
        refuse_without_owner(max_waiting:, abandoned:)
        Led.new(share)
      end
    end

    # @param key [Object] the computation's name; compared as Hash keys are
    # @yield computes the value, unless the key is being computed already
    # @return [Object] the block's value, the same object for all callers
    # @raise [CircularError] if the caller would wait for itself: the block of a key asks for that key again, or for a
    #   key whose computation waits for this one
    # @raise [OverloadError] with `owned: true`: if `max_waiting` callers wait for the key already
    # @raise [EndedError] with `owned: true`: if the computation ended twice without a value or an error
    # @raise [Exception] the block's error, by the rules above
    def call(key, &compute)
      raise ArgumentError, "Flight#call needs a block that computes #{key.inspect}" unless compute
      @table.call(key, &compute)
    end

    # Later callers begin another computation of the key, for example because its data have changed. Those that wait
    # get the value of the present one.
    # @param key [Object]
    # @return [Boolean] whether it was being computed
    def forget(key) = @table.forget(key)

    # @api private
    # Forgets all keys for which the block is true. It is called with the lock held.
    # @yieldparam key [Object]
    # @return [void]
    def forget_if(&) = @table.forget_if(&)

    # @return [Integer] the number of running computations, without those that were forgotten
    def size = @table.size

    # @return [Integer] the number of callers that wait for a computation: followers, or with `owned: true` all callers
    def waiting = @table.waiting

    private

    def check_error(error)
      return if error.is_a?(Module)
      raise ArgumentError, "share: must be error classes or modules, got #{error.inspect}"
    end

    def check_abandoned(what)
      return what if what == :cancel || what == :finish
      raise ArgumentError, "abandoned: must be :cancel or :finish, got #{what.inspect}"
    end

    def refuse_without_owner(**options)
      name, value = options.find { |_, given| !given.nil? }
      raise ArgumentError, "#{name}: #{value.inspect} needs owned: true" if name
    end
  end
end
