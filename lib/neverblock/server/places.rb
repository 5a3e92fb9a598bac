# frozen_string_literal: true

require "shellwords"
require_relative "binder"
require_relative "pid_file"

module NeverBlock
  class Server
    # Checks what a server needs beside the app: folders for files and sockets, addresses, programs. Used by
    # `check-config`, and before one program replaces another.
    #
    #   places = Places.new(configuration)
    #   places.mistakes   # => ["config/neverblock.rb:3: pid_file \"run/pid\": there is no folder …"]
    #   places.rehearse(control: "/srv/shop/control.sock") # what the next program could not open
    # @api private
    class Places
      FILES = %i[pid_file control access_log_to error_log].freeze
      SOCKETS = %i[bind health].freeze

      # @param configuration [Configuration]
      # @param home [String] the directory of relative paths
      def initialize(configuration, home = Dir.pwd)
        @configuration = configuration
        @home = home
      end

      # @return [Array<String>] a sentence for each thing that is missing
      def mistakes
        [*folders,
          *SOCKETS.flat_map { |name| each_wrong(name) { |place| check_folder(place.path, "path") if place.unix? } },
          *each_wrong(:directory) { |path| check_directory(path) },
          *each_wrong(:sidecar) { |command| check_program(command) }].uniq
      end

      # @return [Array<String>] a sentence for each file whose folder is missing
      def folders = FILES.flat_map { |name| each_wrong(name) { |path| check_folder(path, "file") if String === path } }

      # Opens for a moment what a supervisor, or a single process, needs for itself. For what the present one has open,
      # it only looks for the folder.
      # @param held [Hash{Symbol=>String}] what the present one has open: :pid_file, :control, :health
      # @return [Array<String>] a sentence for each thing that can't be opened
      def rehearse(**held)
        found = %i[pid_file control health].flat_map do |name|
          each_wrong(name) { |place| check_folder(path(place), "place") if path(place) }
        end
        return found if found.any?
        [*each_wrong(:pid_file) { |path| try_pid_file(path) unless held?(path, held[:pid_file]) },
          *each_wrong(:control) { |path| try_to_bind("unix://#{expand(path)}") unless held?(path, held[:control]) },
          *each_wrong(:health) { |address| try_to_bind(address.to_s) unless same?(address, held[:health]) }]
      end

      # @param held [Hash{Symbol=>String}] what the present program has open
      # @return [Array<String>] a sentence for each thing that the next program could not open
      def mistakes_of_next(held) = [*folders, *rehearse(**held)].uniq

      # @return [Hash{Symbol=>String}] files and addresses that only one server of this configuration can have open, for
      #   {#rehearse} of the next one
      def held
        paths = {pid_file: @configuration[:pid_file], control: @configuration[:control]}.compact
        {**paths.transform_values { |path| expand(path) }, health: @configuration[:health]&.to_s}.compact
      end

      private

      # @return [Array<String>] errors with file and line of the setting
      def each_wrong(name)
        word = Directives::SETTINGS.fetch(name).then do |directive, setting|
          [directive.name, *("#{setting.keyword}:" if setting.keyword)].join(" ")
        end
        [@configuration[name]].flatten.compact.filter_map do |value|
          @configuration.blame(name) do
            yield value
            nil
          rescue Error, Address::Malformed => error
            raise ConfigurationError,
              "#{word} #{(String === value) ? value.inspect : value.to_s.inspect}: #{error.message}"
          end
        rescue ConfigurationError => error
          error.message
        end
      end

      def check_folder(path, what)
        folder = File.dirname(expand(path))
        return if File.directory?(folder) && File.writable?(folder)
        here = File.exist?(folder)
        reason = here ? "#{folder} is not a folder that this user can write to" : "there is no folder #{folder}"
        raise ConfigurationError, "#{reason}. Make it, or name another #{what}"
      end

      def check_directory(path)
        unless File.directory?(expand(path))
          raise ConfigurationError, "there is no directory #{expand(path)}. Make it, or name another one"
        end
      end

      def check_program(command)
        program = Shellwords.split(command).first.to_s
        places = if program.include?("/")
          [File.expand_path(program, expand(@configuration[:directory] || "."))]
        else
          ENV["PATH"].to_s.split(":").map { |folder| File.join(folder, program) }
        end
        return if places.any? { |path| File.file?(path) && File.executable?(path) }
        raise ConfigurationError,
          "there is no program #{program.include?("/") ? places.first : "#{program} in PATH"} that this user can run"
      rescue ArgumentError => error
        raise ConfigurationError, error.message
      end

      def path(place) = (String === place) ? place : place.path

      def held?(path, other) = expand(path) == other

      # Two TCP addresses with one port count as the same: they may overlap.
      def same?(address, other)
        other = Address.parse(other) if other
        other && (address.unix? ? address.path == other.path : address.port == other.port)
      end

      def try_pid_file(path)
        file = PidFile.new(expand(path))
        file.write
        file.remove
      end

      def try_to_bind(uri)
        binder = Binder.new([Address.parse(uri)], backlog: 1)
        binder.open
      rescue BindError => error
        raise BindError, error.message.delete_prefix("#{uri}: ")
      ensure
        binder&.close
      end

      def expand(path) = File.expand_path(path, @home)
    end
  end
end
