# frozen_string_literal: true

require_relative "recording"

module NeverBlock
  module ActionCaching
    # A stored response: a Hash of Strings and Arrays of these. What has another form was not written by this class, and
    # is none.
    #
    #   hash = Entry.pack(recording, lifetime: 60.0, versions: {"reports" => "1f3a…"})
    #   Entry.of(hash, versions:)&.answer(controller)
    # @api private
    class Entry
      FORM = "1"
      SKEW = 5.0 # seconds by which the clocks of two hosts may differ
      private_constant :FORM, :SKEW

      class << self
        # @return [Hash{String=>Object}]
        def pack(recording, lifetime:, versions:)
          at = clock
          {"form" => FORM, "at" => format("%.3f", at), "until" => format("%.3f", at + lifetime),
           "tags" => versions.to_a, "body" => recording.body, **recording.changes}
        end

        # @param hash [Object] of the store
        # @param versions [Hash{String=>String}] of the request's tags
        # @return [Entry, nil] nil: it is none, is too old, or was purged
        def of(hash, versions:)
          return unless Hash === hash && hash["form"] == FORM && valid?(hash)
          entry = new(hash)
          entry if entry.fresh?(clock) && hash["tags"].to_h == versions
        end

        # @return [Float] seconds since 1970
        def clock = Clock.wall

        private

        def valid?(hash)
          hash.values_at("at", "until").all? { |text| String === text && /\A\d{1,12}\.\d{3}\z/.match?(text) } &&
            hash.values_at("body", "vary").all?(String) && strings?(hash["gone"]) &&
            pairs?(hash["tags"]) { |value| String === value } &&
            pairs?(hash["headers"]) { |value| String === value || strings?(value) } &&
            pairs?(hash["control"]) { |value| String === value || strings?(value) } &&
            hash["control"].all? do |name, value|
              Recording::CONTROL.key?(name) && (Array === value) == (name == "extras")
            end
        end

        def strings?(list) = Array === list && list.all?(String)

        def pairs?(list)
          Array === list &&
            list.all? { |pair| Array === pair && pair.size == 2 && String === pair[0] && yield(pair[1]) }
        end
      end

      def initialize(hash)
        @hash = hash
        @at = hash["at"].to_f
      end

      # @return [Boolean]
      def fresh?(now) = now < @hash["until"].to_f && now > @at - SKEW

      # Makes it the controller's response: 304 if that is what the browser has.
      # @param controller [ActionController::Metal]
      # @return [void]
      def answer(controller)
        response = controller.response
        @hash["gone"].each { |name| response.delete_header(name) }
        @hash["headers"].each { |name, value| response.set_header(name, value.dup) }
        vary(response)
        @hash["control"].each { |name, value| response.cache_control[Recording::CONTROL[name]] = directive(value) }
        age(response)
        return Entry.not_modified(controller) if (response.etag || response.last_modified?) &&
          controller.request.fresh?(response)
        controller.response_body = @hash["body"].dup
      end

      # @param controller [ActionController::Metal]
      # @return [void]
      def self.not_modified(controller)
        controller.response_body = nil
        controller.status = 304
        controller.response_body = ""
      end

      private

      # What reads the response then counts from the time when it was made.
      def age(response)
        response.set_header("Age", [(Entry.clock - @at).floor, 0].max.to_s)
      end

      def vary(response)
        return if @hash["vary"].empty?
        names = [response.headers["Vary"], @hash["vary"]].flat_map { |field| field.to_s.split(",").map(&:strip) }
        response.set_header("Vary", names.uniq(&:downcase).join(", "))
      end

      def directive(value)
        case value
        when "" then nil
        when "true" then true
        when String then value.to_i
        else value.dup
        end
      end
    end
  end
end
