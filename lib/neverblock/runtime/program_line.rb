# frozen_string_literal: true

require "rbconfig"

module NeverBlock
  # Finds the line of the program that a fiber or a thread is at: its innermost call outside of libraries.
  #
  #   ProgramLine.of(fiber)   # => "app/models/order.rb:12"
  # @api private
  module ProgramLine
    # Stack frames that are searched.
    MAX_FRAMES = 100
    # Beginnings of paths that are not the program's own code.
    LIBRARIES = Ractor.make_shareable([
      File.expand_path("../..", __dir__), RbConfig::CONFIG["rubylibprefix"],
      *(Gem.path.flat_map { |path| [File.join(path, "gems"), File.join(path, "bundler")] } if defined?(Gem))
    ].map { |folder| File.join(folder, "") }.push("<internal:"))
    private_constant :MAX_FRAMES, :LIBRARIES

    # @param owner [Fiber, Thread]
    # @return [String, nil] "path:line"; nil if it has ended, or has no such call
    def self.of(owner)
      call = owner.backtrace_locations(0, MAX_FRAMES)&.find do |location|
        location.path && !location.path.start_with?(*LIBRARIES)
      end
      "#{call.path}:#{call.lineno}" if call
    end
  end
end
