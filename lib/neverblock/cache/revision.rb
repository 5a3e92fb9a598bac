# frozen_string_literal: true

require "digest"
require_relative "../runtime/value_type"

module NeverBlock
  class Cache
    # The release of the app that made a response. It is one of the values that select a stored response, beside the
    # request's headers. So a release never gets what another one has stored, and a purge by URL or tag reaches the
    # responses of all releases in a store.
    #
    #   Revision.pairs("4f2a91c")        # => [["REVISION", "4f2a91c"]]: added to those of an {Entry}'s `vary`
    #   Revision.mark("4f2a91c")         # => "df34": how the names of its variants begin in a store
    # @api private
    module Revision
      # Names of headers are in lower case here, so that no request can have this one.
      NAME = "REVISION"
      MARK = 4
      WORDS = "a text of 1 to 100 visible ASCII characters, such as \"4f2a91c\", or nil for none"
      TYPE = ValueType.new(WORDS) do |value|
        text = String === value && value.ascii_only? && /\A[\x21-\x7e]{1,100}\z/.match?(value)
        (text || value.nil?) ? value : ValueType::REFUSED
      end
      NONE = [].freeze
      private_constant :NAME, :MARK, :WORDS, :TYPE, :NONE

      class << self
        # @param value [String, nil]
        # @yieldreturn [String] the option's name, for the message
        # @return [String, nil] frozen
        # @raise [ConfigurationError]
        def check(value, &)
          TYPE.setting(value, &)&.dup&.freeze
        end

        # @param text [String, nil]
        # @return [Boolean]
        def valid?(text) = TYPE.take(text) != ValueType::REFUSED

        # @param revision [String, nil]
        # @return [Array<Array(String, String)>]
        def pairs(revision) = revision ? [[NAME, revision].freeze].freeze : NONE

        # @param pairs [Array<Array(String, String)>] an {Entry}'s `vary`, or the like
        # @return [Array<Array(String, String)>] those of the request's headers
        def without(pairs) = of(pairs) ? pairs[...-1] : pairs

        # @param pairs [Array<Array(String, String)>]
        # @return [String, nil]
        def of(pairs) = ((pairs.last&.first == NAME) ? pairs.last.last : nil)

        # Two revisions may have the same one: it is for skipping others' entries, and decides nothing.
        # @param revision [String, nil]
        # @return [String]
        def mark(revision) = Digest::SHA256.hexdigest(revision.to_s)[0, MARK]
      end
    end
  end
end
