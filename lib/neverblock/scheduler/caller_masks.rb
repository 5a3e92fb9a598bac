# frozen_string_literal: true

module NeverBlock
  # The masks of Thread.handle_interrupt that are in force around a loop. An interrupt of the loop's thread is taken under
  # these alone: those of parked tasks are on the thread too, as Ruby keeps masks by the thread, and would hide it for as long
  # as one of them is parked.
  #
  #   Thread.handle_interrupt(Shutdown => :never) do      # holds off Thread#raise(Shutdown), and no Interrupt
  #     NeverBlock.run { Thread.handle_interrupt(Exception => :never) { lock.synchronize { … } } }
  #   end
  #
  # Patches::HandleInterrupt notes each block that is no task's.
  # @api private
  module CallerMasks
    # Of the thread, as Ruby's own are: an Array, outermost first.
    KEY = :neverblock_caller_masks
    private_constant :KEY

    class << self
      # @return [String, nil] the file of what notes masks here, as it stands in backtraces
      attr_accessor :noted_by
    end

    # Notes a mask for as long as the block runs.
    # @param mask [Hash, Object] what Thread.handle_interrupt was given
    # @return [Object] the block's value
    def self.under(mask)
      masks = Thread.current.thread_variable_get(KEY) || Thread.current.thread_variable_set(KEY, [])
      size = masks.size
      begin
        masks.push(mask.dup.freeze) if Hash === mask
        yield
      ensure
        masks.pop if masks.size > size
      end
    end

    # One mask that says what all of them say together, and nothing of others. The loop waits as it asks, so that what
    # :on_blocking lets through is let through.
    # @return [Hash{Module => Symbol}, nil] nil: there is one that was set before the patch was applied, and so isn't known
    def self.all
      return if caller_locations.any? { |frame| frame.base_label == "handle_interrupt" && frame.path != noted_by }
      (Thread.current.thread_variable_get(KEY) || []).reduce({Object => :immediate}) { |outer, inner| stack(outer, inner) }
    end

    # Ruby asks the innermost mask first that knows any ancestor of the exception.
    def self.stack(outer, inner)
      inner = inner.transform_values { |timing| (timing == :on_blocking) ? :immediate : timing }
      outer.reject { |hidden, _| inner.keys.any? { |known| hidden <= known } }.merge(inner)
    end
    private_class_method :stack
  end
end
