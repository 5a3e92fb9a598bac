# frozen_string_literal: true

# Loads the compiled extension. A checkout has one build per Ruby series, in lib/neverblock/3.4 and the like. An
# installed gem has the build for its own Ruby.
if RUBY_VERSION < "3.3"
  raise LoadError, "NeverBlock needs Ruby 3.3 or later; this is #{RUBY_VERSION} (#{RbConfig.ruby})"
end

begin
  require "neverblock/#{RUBY_VERSION[/\d+\.\d+/]}/neverblock_ext"
rescue LoadError => error
  raise unless error.path.to_s.end_with?("neverblock_ext")
  begin
    require "neverblock/neverblock_ext"
  rescue LoadError
    raise LoadError,
      "NeverBlock's extension is not compiled for Ruby #{RUBY_VERSION} (#{RbConfig.ruby}). In a checkout " \
      "run NEVERBLOCK_RUBY=#{RbConfig.ruby} bin/setup, or start your program with bin/ruby, which uses the Ruby " \
      "chosen by bin/setup. In an app with vendor/gems/neverblock run: bundle install. For an installed gem run: " \
      "gem pristine neverblock"
  end
end

# Ruby 4.1 warns once that IO::Buffer is experimental, also when core itself creates the first one for our io_read or
# io_write. The warning is of no use to a program, so it is spent here, silenced.
if RUBY_VERSION >= "4.0"
  experimental = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.new(0)
  ensure
    Warning[:experimental] = experimental
  end
end
