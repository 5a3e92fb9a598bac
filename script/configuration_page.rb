# frozen_string_literal: true

# Writes docs/configuration.md out of the directives' own definitions:
#
#   ruby -Ilib script/configuration_page.rb
require "neverblock"
require "neverblock/server/configuration"

# The page.
class ConfigurationPage
  PATH = File.expand_path("../docs/configuration.md", __dir__)

  HEAD = <<~MARKDOWN
    # Which directives does the server have?

    This page is made by `rake configuration` from
    `lib/neverblock/server/directives.rb`, where each directive is defined. Do not edit it.

    `neverblock serve` reads `config/neverblock.rb`, or the files that `-C` names; later ones
    override earlier ones. It is plain Ruby in which each directive is a method. All directives
    have defaults: an empty file, or none, is a good start. A configuration that was written for
    Puma works too ([Coming from Puma](from-puma.md)).

    ```ruby
    bind "tcp://127.0.0.1:3000"
    max_in_flight 200                      # how many: docs/sizing.md
    queue limit: 500, max_wait: 0.5
    access_log :json, to: "log/access.log"
    ```

    Options of the command line override the file. In code, directives are keywords,
    `NeverBlock::Server.new(app, max_in_flight: 200, queue: {limit: 500})`. With rackup they are
    options by the names in brackets below:
    `rackup -s neverblock -O max_in_flight=200 -O queue_limit=500`.

    An invalid value, a misspelt directive or a contradiction ends the start with status 64. All
    errors of a file are reported at once, each with file and line, the value and the
    remedy. Sizes are whole numbers of bytes, or a String with a unit: `"64 KiB"`,
    `"10 MiB"`, `"1 GiB"`; `"10 MB"` is ten million. Times are seconds, whole or not.
  MARKDOWN

  def to_s
    "#{[HEAD.chomp, index, *topics].join("\n\n")}\n"
  end

  private

  def index
    rows = NeverBlock::Server::Directives::ALL.each_value.map do |directive|
      "| [`#{directive.name}`](##{directive.name}) | #{defaults(directive)} |"
    end
    ["| directive | default |", "| --- | --- |", *rows].join("\n")
  end

  def topics
    NeverBlock::Server::Directives::TOPICS.map do |title, directives|
      ["## #{title}", *directives.each_value.map { |directive| section(directive) }].join("\n\n")
    end
  end

  def section(directive)
    <<~MARKDOWN.chomp
      ### #{directive.name}

      #{wrap(directive.says)}

      #{directive.settings.map { |setting| "- #{line(setting)}" }.join("\n")}

      ```ruby
      #{directive.example}
      ```
    MARKDOWN
  end

  def wrap(text) = text.split.join(" ").gsub(/(.{1,88})(?: |\z)/, "\\1\n").chomp

  def line(setting)
    "#{"`#{setting.keyword}:` (`#{setting.name}`) " if setting.keyword}#{setting.type.words}. Default: `#{default(setting)}`"
  end

  def defaults(directive)
    directive.settings.map { |setting| "#{"#{setting.keyword}: " if setting.keyword}`#{default(setting)}`" }.join(", ")
  end

  def default(setting)
    {$stdout => "$stdout", $stderr => "$stderr", [] => "none"}.fetch(setting.default) { setting.type.show(setting.default) }
  end
end

File.write(ConfigurationPage::PATH, ConfigurationPage.new.to_s) if $PROGRAM_NAME == __FILE__
