# frozen_string_literal: true

module NeverBlock
  class Select
    # The end of a task or a thread, or a settled promise.
    # @api private
    class Value < Case
      def take
        over = (Promise === source) ? source.settled? : !source.alive?
        [source.value] if over
      end

      # The failure of a source without another waiter is raised here; the helper's scope passes it to the caller.
      def wait
        (Promise === source) ? source.wait : source.join
        nil
      end
    end
    private_constant :Value
  end
end
