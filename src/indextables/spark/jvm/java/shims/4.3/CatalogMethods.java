package indextables.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Methods of a catalog by which Spark creates and loads tables. They differ between versions of Spark. */
abstract class CatalogMethods extends DelegatingCatalogExtension implements StagingTableCatalog {
    abstract boolean has(Identifier name);

    abstract Table load(Identifier name, Map given) throws NoSuchTableException;

    abstract StagedTable staged(Identifier name, NewTable info)
        throws TableAlreadyExistsException, NoSuchNamespaceException;

    abstract StagedTable restaged(Identifier name, NewTable info)
        throws NoSuchNamespaceException, NoSuchTableException;

    abstract StagedTable stagedAnyway(Identifier name, NewTable info) throws NoSuchNamespaceException;

    /** Check the options of a read: Spark passes all of them when it loads a table. */
    static void check(Map given) {}

    /** A time in microseconds as text. */
    static String moment(long micros) {
        long seconds = Math.floorDiv(micros, 1000000L);
        return java.time.Instant.ofEpochSecond(seconds, Math.floorMod(micros, 1000000L) * 1000L).toString();
    }

    public StagedTable stageCreate(Identifier name, TableInfo info)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return staged(name, new NewTable(info));
    }

    public StagedTable stageReplace(Identifier name, TableInfo info)
        throws NoSuchNamespaceException, NoSuchTableException {
        return restaged(name, new NewTable(info));
    }

    public StagedTable stageCreateOrReplace(Identifier name, TableInfo info)
        throws NoSuchNamespaceException {
        return stagedAnyway(name, new NewTable(info));
    }

    public TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException, NoSuchTableException {
        return ((TableCatalog) delegate).listTableSummaries(namespace);
    }

    public Table loadTable(Identifier name, TableContext context, CaseInsensitiveStringMap options)
        throws NoSuchTableException {
        if (!has(name)) return ((TableCatalog) delegate).loadTable(name, context, options);
        Map given = new HashMap(options.asCaseSensitiveMap());
        Object travel = context.timeTravel().orElse(null);
        if (travel instanceof TimeTravel.AsOfVersion) {
            given.put("versionAsOf", ((TimeTravel.AsOfVersion) travel).version());
        } else if (travel instanceof TimeTravel.AsOfTimestamp) {
            given.put("timestampAsOf", moment(((TimeTravel.AsOfTimestamp) travel).micros()));
        }
        return load(name, given);
    }
}
