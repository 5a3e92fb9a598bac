# frozen_string_literal: true

module NeverBlock
  class Select
    # The end of a task or a thread, or of a promise's wait.
    # @api private
    class Value < Case
      def take
        over = (Promise === source) ? source.settled? : !source.alive?
        [source.value] if over
      end

      # A failure is raised here if nobody else has waited for it: the helper's scope hands it to the caller.
      def wait
        (Promise === source) ? source.wait : source.join
        nil
      end
    end
    private_constant :Value
  end
end
