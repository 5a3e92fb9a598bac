# frozen_string_literal: true

require_relative "personal_error"

module NeverBlock
  module ActionCaching
    # What becomes of an action that has read what concerns one user: an error, or a line in the log once per action.
    #
    #   Guard.call(watch)    # => false: its response can't be stored
    # @api private
    module Guard
      LOCK = Thread::Mutex.new
      KNOWN = {} # action => true
      MOST = 10_000
      private_constant :LOCK, :KNOWN, :MOST

      class << self
        # @param watch [Watch] of an action that has ended
        # @return [Boolean] whether the action has read nothing that concerns one user
        # @raise [PersonalError]
        def call(watch)
          read = watch.read or return true
          refuse(watch, read) if ActionCaching.settings.guard == :raise
          log(watch, read) if learn(watch.label)
          false
        end

        # Which tags an action has may depend on its client and on data.
        # @param watch [Watch]
        # @return [void]
        def unusable_tags(watch)
          return unless learn("#{watch.label} tags")
          ActionCaching.settings.log&.call("#{watch.label} is not cached for a request with an empty tag, one over " \
            "#{Rule::TAG_BYTES} bytes, or more than #{Rule::MOST_TAGS} tags. Later ones are not logged")
        end

        private

        def learn(label)
          LOCK.synchronize { !KNOWN.key?(label) && KNOWN.size < MOST && KNOWN[label] = true }
        end

        def refuse(watch, read)
          clear(watch.controller)
          raise PersonalError, message(watch, read), read.backtrace
        end

        # A handler of `rescue_from` can render, as for an action that has not rendered.
        def clear(controller)
          return if controller.response.committed?
          controller.response.reset_body!
          controller.response.delete_header("Content-Type")
          controller.instance_variable_set(:@_response_body, nil)
        end

        def log(watch, read)
          ActionCaching.settings.log&.call("#{message(watch, read)} The response is not stored. Later ones of this " \
            "action are not logged")
        end

        def message(watch, read)
          place = read.place
          "#{watch.label} is cached, and uses #{read}, which is one user's#{" (#{place})" if place}. #{read.remedy}."
        end
      end
    end
  end
end
