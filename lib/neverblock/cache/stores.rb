# frozen_string_literal: true

require "uri"
require_relative "memory_store"
require_relative "file_store"
require_relative "active_support_store"
require_relative "remote_stores"

module NeverBlock
  class Cache
    # Makes a store from what is written in a configuration.
    #
    #   Stores.open("memory:256m")
    #   Stores.open("file:/var/cache/app?bytes=2g&namespace=release-7")
    #   Stores.open({file: "/var/cache/app", bytes: "2g"})
    #   Stores.open("redis://cache.internal:6379/0?namespace=shop")
    #   Stores.open({memory: "64m", over: "redis://cache.internal", fresh_for: 1})
    #   Stores.open(Rails.cache)      # or any object with the methods of a store
    # @api private
    module Stores
      # What an object needs to be a store.
      METHODS = %i[read generation write purge purge_tag clear stats close].freeze
      # Per kind: its options, by how their text is read.
      LIMITS = {max_entry: :size, max_variants: :count, max_tags: :count, max_key: :size, max_headers: :size}.freeze
      REMOTE = {
        namespace: :text, timeout: :seconds, connections: :count, expires_in: :seconds, lease: :seconds,
        lease_wait: :seconds, log: :object, **LIMITS
      }.freeze
      POSTGRES = {**REMOTE, table: :text, bytes: :size}.freeze
      OPTIONS = {
        memory: {over: :object, fresh_for: :seconds, **LIMITS}.freeze,
        file: {bytes: :room, namespace: :text, max_entries: :count, memory: :size, descriptors: :count, log: :object,
               **LIMITS}.freeze,
        redis: REMOTE, rediss: REMOTE, unix: REMOTE, memcached: REMOTE, postgres: POSTGRES, postgresql: POSTGRES
      }.freeze
      SIZE = /\A(\d{1,12})\s*([kmg])\z/i
      FACTORS = {"k" => 1 << 10, "m" => 1 << 20, "g" => 1 << 30}.freeze
      BYTES = ValueType.bytes(least: 1)
      COUNT = ValueType.count(least: 1)
      REMEDY = 'For example: "memory:256m", "file:/var/cache/app?bytes=2g", or "redis://cache.internal"'
      FILE_REMEDY = 'For example: "file:/var/cache/app?bytes=2g"'
      # A text has a number of bytes without a unit. Less than this is meant in another unit.
      BARE = /\A\d+\z/
      LEAST = 64 << 10
      # Of a URL with these the parameters that are not ours are the client's.
      FOREIGN = %i[postgres postgresql unix].freeze
      # The user and password in a URL.
      SECRETS = %r{//[^/@]*@}
      private_constant :METHODS, :LIMITS, :REMOTE, :POSTGRES, :OPTIONS, :FOREIGN, :SECRETS, :SIZE, :FACTORS, :BYTES,
        :COUNT, :REMEDY, :FILE_REMEDY, :BARE, :LEAST

      class << self
        # @param spec [String, Hash, Object]
        # @return [Object] a store
        # @raise [ConfigurationError]
        def open(spec)
          kind, place, options = read(spec)
          case kind
          when nil then adopt(spec)
          when :memory then memory(place, options)
          when :file then file(place, options)
          else RemoteStores.open(kind, place, options)
          end
        end

        # Looks at what is written, and opens nothing.
        # @param spec [String, Hash, Object]
        # @return [void]
        # @raise [ConfigurationError]
        def check(spec)
          kind, place, options = read(spec)
          case kind
          when nil then adopt(spec)
          when :memory
            room(place, "memory:")
            check(options[:over]) if options[:over]
          when :file then check_file(place, options)
          end
          nil
        end

        # @param value [Integer, String] with k, m or g, or as everywhere else ("64 KiB")
        # @param name [String] for the message
        # @return [Integer] bytes
        # @raise [ConfigurationError]
        def size(value, name)
          match = SIZE.match(value) if String === value
          checked(BYTES, match ? match[1].to_i * FACTORS.fetch(match[2].downcase) : value, name)
        end

        private

        # @return [Array(Symbol, Object, Hash), nil] its kind, place and options; nil: it is an object
        def read(spec)
          kind, place, options = case spec
          when String then parse(spec)
          when Hash then split(spec)
          else return
          end
          [kind, place, converted(kind, options)]
        end

        def parse(text)
          kind, rest = text.strip.split(":", 2)
          refuse(text) if rest.nil?
          place, _, query = rest.strip.partition("?")
          options = pairs(query, text)
          kind = kind.downcase.to_sym
          refuse(text) unless OPTIONS.key?(kind)
          place, options = url(kind, place, options) if FOREIGN.include?(kind)
          [kind, place, options]
        end

        def url(kind, place, options)
          foreign = options.except(*OPTIONS.fetch(kind).keys)
          [foreign.empty? ? place : "#{place}?#{URI.encode_www_form(foreign)}", options.except(*foreign.keys)]
        end

        def pairs(query, text)
          pairs = URI.decode_www_form(query).map { |name, value| [name.to_sym, value] }
          double = pairs.map(&:first).tally.find { |_, count| count > 1 }
          raise ConfigurationError, "store: #{shown(text)} has #{double.first} twice" if double
          pairs.to_h
        rescue ArgumentError => error
          raise if ConfigurationError === error
          raise ConfigurationError, "store: #{shown(text)}: #{error.message}"
        end

        def split(hash)
          options = hash.transform_keys(&:to_sym)
          kind = options.keys.first # so that {file: …, memory: …} is a file store
          refuse(hash) unless OPTIONS.key?(kind)
          [kind, options.delete(kind), options]
        end

        def converted(kind, options)
          known = OPTIONS.fetch(kind)
          options.to_h do |name, value|
            type = known[name] or raise ConfigurationError,
              "store: a #{kind} store has no option #{name}. It has #{known.keys.join(", ")}"
            [name, convert(type, value, "#{name}:")]
          end
        end

        def memory(size, options)
          bytes = room(size, "memory:")
          over = options.delete(:over) or return MemoryStore.new(bytes:, **options)
          useless = options.keys - [:fresh_for]
          return TwoLevels.new(bytes:, over: Stores.open(over), **options) if useless.empty?
          raise ConfigurationError, "store: #{useless.first} belongs to the store that over: names"
        end

        def file(path, options)
          check_file(path, options)
          FileStore.new(path.to_s.sub(%r{\A/+}, "/"), **options)
        end

        def check_file(path, options)
          path = path.to_s
          unless path.start_with?("/")
            raise ConfigurationError, "store: #{path.inspect} is not an absolute path. #{FILE_REMEDY}"
          end
          return if options[:bytes]
          raise ConfigurationError, "store: the size of the file store #{path} is missing. #{FILE_REMEDY}"
        end

        # The size of a store. As a number, and with a unit, any size is meant as it is.
        def room(value, name)
          bytes = size(value, name)
          return bytes unless bytes < LEAST && String === value && BARE.match?(value.strip)
          raise ConfigurationError, "store: #{name} #{value} would be a store of #{bytes} bytes. " \
            "Did you mean #{name.chomp(":")}#{(name == "memory:") ? ":" : "="}#{bytes}m?"
        end

        def convert(type, value, name)
          case type
          when :room then room(value, name)
          when :size then size(value, name)
          when :count then checked(COUNT, (Integer(value, 10, exception: false) if String === value) || value, name)
          when :seconds then (Float(value, exception: false) if String === value) || value
          else value
          end
        end

        def checked(type, value, name) = type.setting(value) { name }

        # Rails' stores have some of the methods, with other meanings.
        def adopt(object)
          return ActiveSupportStore.new(object) if object.respond_to?(:read_multi) && object.respond_to?(:fetch_multi)
          missing = METHODS.reject { |name| object.respond_to?(name) }
          return object if missing.empty?
          name = object.inspect[0, 100]
          raise ConfigurationError, "store: #{name} is not a store: it has no #{missing.join(", ")}. #{REMEDY}"
        end

        def refuse(spec) = raise(ConfigurationError, "store: #{shown(spec)} is none that is known. #{REMEDY}")

        def shown(spec) = spec.inspect.gsub(SECRETS, "//")
      end
    end
  end
end
