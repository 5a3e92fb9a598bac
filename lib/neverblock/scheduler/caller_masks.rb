# frozen_string_literal: true

module NeverBlock
  # The masks of Thread.handle_interrupt around a loop. Interrupts of the loop's thread are taken under these masks
  # only. Ruby keeps masks per thread, so the masks of parked tasks are on the thread as well, and would defer an
  # interrupt for as long as such a task is parked.
  #
  #   Thread.handle_interrupt(Shutdown => :never) do      # defers Thread#raise(Shutdown), but not an Interrupt
  #     NeverBlock.run { Thread.handle_interrupt(Exception => :never) { lock.synchronize { … } } }
  #   end
  #
  # Patches::HandleInterrupt records each block outside of tasks.
  # @api private
  module CallerMasks
    # A thread variable, as Ruby's own masks are per thread: an Array, outermost first.
    KEY = :neverblock_caller_masks
    private_constant :KEY

    class << self
      # @return [String, nil] the path of the file that records masks here, as it appears in backtraces
      attr_accessor :noted_by
    end

    # Records a mask while the block runs.
    # @param mask [Hash, Object] the argument of Thread.handle_interrupt
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

    # Combines the recorded masks into one. An :on_blocking entry becomes :immediate, because
    # the loop asks while it waits.
    # @return [Hash{Module => Symbol}, nil] nil if a mask was set before the patch was applied, and is therefore unknown
    def self.all
      return if caller_locations.any? { |frame| frame.base_label == "handle_interrupt" && frame.path != noted_by }
      (Thread.current.thread_variable_get(KEY) || []).reduce({Object => :immediate}) do |outer, inner|
        stack(outer, inner)
      end
    end

    # Ruby uses the innermost mask that names an ancestor of the exception.
    def self.stack(outer, inner)
      inner = inner.transform_values { |timing| (timing == :on_blocking) ? :immediate : timing }
      outer.reject { |hidden, _| inner.keys.any? { |known| hidden <= known } }.merge(inner)
    end
    private_class_method :stack
  end
end
